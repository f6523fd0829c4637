"""Which bodies make up one robot: those that joints connect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kinema.description import Joint


def connected_components(names: Sequence[str], joints: Iterable[Joint]) -> list[list[str]]:
    """Groups of link names that joints connect, each in the order of `names`, first come first."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for joint in joints:
        if joint.parent is not None and joint.child is not None:
            a, b = find(joint.parent), find(joint.child)
            if a != b:
                leader[b] = a
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(find(name), []).append(name)
    return list(groups.values())
