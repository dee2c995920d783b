"""PyTorch's gloo: one tensor in place, several in buckets as DistributedDataParallel does it."""

from __future__ import annotations

from typing import Any

from benchmarks.engines.engine import ArrayEngine, Run
from benchmarks.workloads import MB, Workload

# DistributedDataParallel's default.
BUCKET_BYTES = 25 * MB


class Gloo(ArrayEngine):
    """`torch.distributed.all_reduce`.

    Args:
        rank: This process's number.
        size: How many there are.
        meeting_place: A file that does not exist yet, in a directory that all share.
    """

    title = "PyTorch gloo"

    def __init__(self, rank: int, size: int, meeting_place: str) -> None:
        self.rank, self.size = rank, size
        self._meeting_place = meeting_place

    def join(self) -> None:
        import torch
        import torch.distributed

        torch.set_num_threads(1)
        self._torch: Any = torch
        self._distributed: Any = torch.distributed
        self._distributed.init_process_group(
            "gloo",
            init_method=f"file://{self._meeting_place}",
            rank=self.rank,
            world_size=self.size,
        )

    def _tensors(self, work: Workload) -> list[Any]:
        """PyTorch's views of the arrays; it takes no bfloat16 from NumPy."""
        if work.dtype == "bfloat16":
            views = [self._torch.from_numpy(array.view("int16")) for array in self.arrays]
            return [view.view(self._torch.bfloat16) for view in views]
        return [self._torch.from_numpy(array) for array in self.arrays]

    def prepare(self, work: Workload, value: float) -> Run:
        self.allocate(work, value)
        tensors = self._tensors(work)
        reduce = self._distributed.all_reduce
        if len(tensors) == 1:
            return lambda: reduce(tensors[0])
        buckets = self._buckets(tensors)

        def run() -> None:
            pending = []
            for flat, parts in buckets:
                for tensor, part in parts:
                    part.copy_(tensor)
                pending.append(reduce(flat, async_op=True))
            for handle, (_, parts) in zip(pending, buckets, strict=True):
                handle.wait()
                for tensor, part in parts:
                    tensor.copy_(part)

        return run

    def _buckets(self, tensors: list[Any]) -> list[tuple[Any, list[tuple[Any, Any]]]]:
        """Flat tensors, each with pairs of a tensor and its place in there."""
        groups: list[list[Any]] = [[]]
        filled = 0
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            if groups[-1] and filled + size > BUCKET_BYTES:
                groups.append([])
                filled = 0
            groups[-1].append(tensor)
            filled += size
        buckets = []
        for group in groups:
            flat = self._torch.zeros(sum(t.numel() for t in group), dtype=group[0].dtype)
            parts, offset = [], 0
            for tensor in group:
                view = flat[offset : offset + tensor.numel()].view(tensor.shape)
                parts.append((tensor, view))
                offset += tensor.numel()
            buckets.append((flat, parts))
        return buckets

    def leave(self) -> None:
        self._distributed.destroy_process_group()
