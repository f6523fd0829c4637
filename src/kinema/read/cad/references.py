"""Whether the parts of a snapshot refer to parts that exist."""

from __future__ import annotations

from collections.abc import Iterable

from kinema.foundation import Diagnostics

from .elements import JointElement, OccurrenceElement, Snapshot
from .schema import FORMAT, ROOT

_MAX_NESTING = 100


def check_references(snapshot: Snapshot, diagnostics: Diagnostics) -> list[JointElement]:
    """Mend the snapshot's references, with an error for each that leads nowhere; the joints that can be used."""
    snapshot.occurrences = _unique(snapshot.occurrences, diagnostics)
    _check_parents(snapshot.occurrences, diagnostics)
    known = {o.path for o in snapshot.occurrences}
    for group in snapshot.rigid_groups:
        unknown = _unknown(group.occurrences, known)
        if unknown:
            more = f" (and so are {len(unknown) - 1} more)" if len(unknown) > 1 else ""
            message = f'rigid group "{group.name}" holds {unknown[0]!r:.80}, which is no occurrence{more}'
            diagnostics.error(f"{FORMAT}.unknown-occurrence", message, origin=group.place)
        group.occurrences = [path for path in group.occurrences if path in known]
    ends = known | {ROOT}
    return [joint for joint in snapshot.joints if _is_usable(joint, ends, diagnostics)]


def _unique(occurrences: Iterable[OccurrenceElement], diagnostics: Diagnostics) -> list[OccurrenceElement]:
    first: dict[str, OccurrenceElement] = {}
    for occurrence in occurrences:
        if occurrence.path in first:
            message = f'occurrence "{occurrence.path}" stands in the snapshot again; this one is left out'
            diagnostics.error(f"{FORMAT}.duplicate-path", message, origin=occurrence.place)
        else:
            first[occurrence.path] = occurrence
    return list(first.values())


def _check_parents(occurrences: list[OccurrenceElement], diagnostics: Diagnostics) -> None:
    """Make a forest of the occurrences."""
    by_path = {o.path: o for o in occurrences}
    depth: dict[str, int] = {ROOT: 0}
    for occurrence in occurrences:
        if occurrence.parent != ROOT and occurrence.parent not in by_path:
            message = (
                f'occurrence "{occurrence.path}" is nested in {occurrence.parent!r:.80}, which is no occurrence; '
                "it is taken to lie in the root component"
            )
            diagnostics.error(f"{FORMAT}.unknown-occurrence", message, origin=occurrence.place)
            occurrence.parent = ROOT
    for occurrence in occurrences:
        chain: list[str] = []
        path = occurrence.path
        while path not in depth and len(chain) <= _MAX_NESTING:
            chain.append(path)
            path = by_path[path].parent
        if path not in depth or depth[path] + len(chain) > _MAX_NESTING:
            message = (
                f'occurrence "{occurrence.path}" is nested in itself, or more than {_MAX_NESTING} deep; '
                "it is taken to lie in the root component"
            )
            diagnostics.error(f"{FORMAT}.nesting", message, origin=occurrence.place)
            occurrence.parent = ROOT
            chain, path = [occurrence.path], ROOT
        for above in reversed(chain):
            depth[above] = depth[by_path[above].parent] + 1


def _unknown(paths: Iterable[str], known: set[str]) -> list[str]:
    return [path for path in paths if path not in known]


def _is_usable(joint: JointElement, known: set[str], diagnostics: Diagnostics) -> bool:
    if joint.suppressed:
        message = f'joint "{joint.name}" is suppressed and left out'
        diagnostics.note(f"{FORMAT}.suppressed", message, origin=joint.place)
        return False
    for end in _unknown((joint.one, joint.two), known):
        message = f'joint "{joint.name}" refers to {end!r:.80}, which is no occurrence; it is left out'
        diagnostics.error(f"{FORMAT}.unknown-occurrence", message, origin=joint.place)
        return False
    if joint.one == joint.two:
        what = "the root component" if joint.one == ROOT else f'"{joint.one}"'
        message = f'joint "{joint.name}" joins {what} to itself; it is left out'
        diagnostics.error(f"{FORMAT}.joint-to-itself", message, origin=joint.place)
        return False
    return True
