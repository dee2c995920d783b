"""Every operation between hosts, with every data type: right, and equal on all ranks."""

from __future__ import annotations

from typing import Any

import pytest

HOSTS_AND_RANKS = [(2, 1), (2, 2), (3, 1), (3, 2), (4, 1), (4, 2)]
# Each takes another algorithm; the last one, with many segments, is for few types only.
SIZES = [1, 1000, 30_001]
LARGE, LARGE_TYPES = 300_003, ("float32", "bfloat16")


def whole_numbers(rank: int, count: int, dtype: str) -> Any:
    """Small ones, so that sums are exact in every type and any order."""
    import ml_dtypes
    import numpy as np

    numbers = (np.arange(count) * 7 + rank * 5) % 7 - 3
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return (numbers % 2 == 0 if dtype == "bool" else abs(numbers)).astype(kind)


def check_reductions() -> list[str]:
    """Hashes of all results of this rank."""
    import hashlib

    import numpy as np

    import tfring
    from tfring import arrays
    from tfring.reduce_op import ReduceOp

    hashes = []
    for dtype in arrays.DTYPES:
        for count in [*SIZES, *([LARGE] if dtype in LARGE_TYPES else [])]:
            inputs = [whole_numbers(rank, count, dtype) for rank in range(tfring.size())]
            op = ReduceOp.MAX if dtype == "bool" else ReduceOp.SUM
            [result] = arrays.allreduce_arrays(
                [inputs[tfring.rank()]], op=op, name=f"{dtype}/{count}"
            )
            wide = np.stack([one.astype(np.float64) for one in inputs])
            expected = wide.max(0) if dtype == "bool" else wide.sum(0)
            np.testing.assert_array_equal(result.astype(np.float64), expected, f"{dtype} {count}")
            hashes.append(hashlib.sha256(result.tobytes()).hexdigest())
    # Sums that depend on the order of the operands.
    for dtype in ("float16", "bfloat16", "float32"):
        values = np.random.default_rng(tfring.rank()).normal(size=100_001)
        array = values.astype(whole_numbers(0, 1, dtype).dtype)
        [result] = arrays.allreduce_arrays([array], op=ReduceOp.SUM, name=f"random/{dtype}")
        hashes.append(hashlib.sha256(result.tobytes()).hexdigest())
    return hashes


def check_movements() -> None:
    import numpy as np

    import tfring
    from tfring import arrays

    size, rank = tfring.size(), tfring.rank()
    for dtype in arrays.DTYPES:
        for count in SIZES if dtype in LARGE_TYPES else SIZES[:2]:
            ours = whole_numbers(rank, count, dtype)
            root = count % size
            [got] = arrays.broadcast_arrays([ours], root_rank=root, name=f"b/{dtype}/{count}")
            np.testing.assert_array_equal(got, whole_numbers(root, count, dtype))
            # Each rank has another number of rows.
            rows = whole_numbers(rank, count * (rank + 1), dtype)
            got = arrays.allgather_array(rows, name=f"g/{dtype}/{count}")
            wanted = [whole_numbers(r, count * (r + 1), dtype) for r in range(size)]
            np.testing.assert_array_equal(got, np.concatenate(wanted))
    arrays.barrier(name="end")


@pytest.mark.parametrize(("hosts", "per_host"), HOSTS_AND_RANKS)
def test_all_operations_and_types(on_hosts: Any, hosts: int, per_host: int) -> None:
    with on_hosts(hosts, per_host=per_host) as job:
        hashes = job.run(check_reductions)
        assert all(one == hashes[0] for one in hashes)
        job.run(check_movements)


@pytest.mark.parametrize("per_host", [(3, 1), (1, 2, 3)])
def test_hosts_of_unequal_numbers_of_ranks(on_hosts: Any, per_host: tuple[int, ...]) -> None:
    with on_hosts(len(per_host), per_host=per_host) as job:
        hashes = job.run(check_reductions)
        assert all(one == hashes[0] for one in hashes)


def reduce_and_read_counter(count: int) -> int:
    """Bytes that this rank has sent to ranks of other hosts, by the kernel's count."""
    import numpy as np

    from tfring import arrays
    from tfring.reduce_op import ReduceOp

    def sent() -> int:
        with open("/proc/self/net/dev", encoding="utf-8") as lines:
            [eth0] = [line.split(":")[1].split() for line in lines if "eth0:" in line]
        return int(eth0[8])

    arrays.allreduce_arrays([np.ones(8, np.float32)], name="first")
    before = sent()
    arrays.allreduce_arrays([np.ones(count, np.float32)], op=ReduceOp.SUM, name="large")
    arrays.barrier(name="last")
    return sent() - before


def test_a_host_of_two_ranks_sends_what_one_rank_would(on_hosts: Any) -> None:
    count = 2**21
    with on_hosts(2, per_host=2) as job:
        sent = job.run(reduce_and_read_counter, count)
    # 2 (hosts - 1) / hosts times the buffer, and headers and acknowledgements.
    for rank in (0, 2):
        assert 4 * count <= sent[rank] < 1.1 * 4 * count
