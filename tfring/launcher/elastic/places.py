"""Which rank a worker has in a generation: a pure function of who had which before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Place = dict[str, int | str]


def assign_ranks(members: Sequence[int], before: Mapping[int, int]) -> dict[int, int]:
    """Ranks from 0 on, with as few changes as possible.

    Who was a member keeps its rank if there is still one of that number. The others of them, and
    then newcomers, fill the holes from the lowest. So rank 0 is a newcomer only when nobody is
    left.

    Example:

    >>> assign_ranks([0, 2, 3], {0: 0, 1: 1, 2: 2, 3: 3})
    {0: 0, 2: 2, 3: 1}
    >>> assign_ranks([1, 2, 7], {0: 0, 1: 1, 2: 2})
    {1: 1, 2: 0, 7: 2}

    Args:
        members: Numbers of the workers.
        before: Ranks in the generation before, by number.

    Returns:
        Ranks by number.
    """
    size = len(members)
    ranks = {number: before[number] for number in members if before.get(number, size) < size}
    holes = [rank for rank in range(size) if rank not in set(ranks.values())]
    moving = sorted(number for number in members if number not in ranks and number in before)
    newcomers = sorted(number for number in members if number not in before)
    if 0 in holes and not moving and newcomers and ranks:
        # The one with the highest rank moves, or a newcomer would be rank 0.
        moved = max(ranks, key=lambda number: ranks[number])
        holes = sorted([*holes, ranks.pop(moved)])
        moving = [moved]
    ranks.update(zip([*moving, *newcomers], holes, strict=True))
    return ranks


def places(ranks: Mapping[int, int], host_of: Mapping[int, str]) -> dict[int, Place]:
    """All that an engine needs to know of each member's place.

    Args:
        ranks: By number of the worker.
        host_of: Names of the workers' hosts.

    Returns:
        By number: rank, size, local_rank, local_size, cross_rank, cross_size, host_id.
    """
    by_rank = sorted(ranks, key=lambda number: ranks[number])
    on_host: dict[str, list[int]] = {}
    for number in by_rank:
        on_host.setdefault(host_of[number], []).append(number)
    hosts = list(on_host)
    return {
        number: {
            "rank": ranks[number],
            "size": len(ranks),
            "local_rank": on_host[host_of[number]].index(number),
            "local_size": len(on_host[host_of[number]]),
            "cross_rank": hosts.index(host_of[number]),
            "cross_size": len(hosts),
            "host_id": host_of[number],
        }
        for number in by_rank
    }
