"""Names for prims: their own, with their ancestors' before it where it is not unique."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable


def unique_names(paths: Iterable[str]) -> dict[str, str]:
    """Path -> the shortest tail of the path that no other path ends in: `link`, else `arm/link`, ..."""
    names: dict[str, str] = {}
    undecided = list(dict.fromkeys(paths))
    depth = 1
    while undecided:
        tails: defaultdict[str, list[str]] = defaultdict(list)
        for path in undecided:
            tails["/".join(path.strip("/").split("/")[-depth:])].append(path)
        undecided = []
        for tail, group in tails.items():
            if len(group) == 1:
                names[group[0]] = tail
            else:
                undecided += group
        depth += 1
    return names
