"""Validates the references of a CAD snapshot and groups its occurrences into rigid bodies (links) with disjoint sets.

A link consists of occurrences that cannot move relative to each other: (1) the members of a rigid group, and an
occurrence grounded to its parent together with that parent; (2) an occurrence without joint, group or ground, together
with the occurrence that contains it; (3) if the joints of an occurrence only lead to other occurrences of the same
sub-assembly, the root of that joint tree together with the sub-assembly. Rigid joints do not merge links: they become
fixed joints.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kinema.core import Diagnostics

from .elements import FORMAT, ROOT_PATH, JointElement, OccurrenceElement, Snapshot

# -- disjoint sets -----------------------------------------------------------------------------------------------------

T = TypeVar("T", bound=Hashable)


class DisjointSets(Generic[T]):
    """Disjoint-set forest (union-find) over hashable items; each item starts in a separate set."""

    def __init__(self, items: Iterable[T]) -> None:
        self._parent = {item: item for item in items}

    def find(self, item: T) -> T:
        """Representative of the set that contains an item (with path halving)."""
        parent = self._parent
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    def union(self, a: T, b: T) -> None:
        """Merge the sets of `a` and `b`; the representative of `a` is kept."""
        self._parent[self.find(b)] = self.find(a)

    def are_connected(self, a: T, b: T) -> bool:
        """Whether two items are in the same set."""
        return self.find(a) == self.find(b)

    def sets(self) -> list[list[T]]:
        """All sets, ordered by first insertion."""
        groups: dict[T, list[T]] = {}
        for item in self._parent:
            groups.setdefault(self.find(item), []).append(item)
        return list(groups.values())


# -- validation of references ------------------------------------------------------------------------------------------

_MAX_NESTING = 100


def check_references(snapshot: Snapshot, diagnostics: Diagnostics) -> list[JointElement]:
    """Remove invalid references from a snapshot in place, with an error for each; returns the usable joints."""
    snapshot.occurrences = _unique_occurrences(snapshot.occurrences, diagnostics)
    _check_parents(snapshot.occurrences, diagnostics)
    known = {o.path for o in snapshot.occurrences}
    for group in snapshot.rigid_groups:
        unknown = _missing_paths(group.occurrences, known)
        if unknown:
            more = f" (and so are {len(unknown) - 1} more)" if len(unknown) > 1 else ""
            message = f'rigid group "{group.name}" holds {unknown[0]!r:.80}, which is no occurrence{more}'
            diagnostics.error(f"{FORMAT}.unknown-occurrence", message, origin=group.origin)
        group.occurrences = [path for path in group.occurrences if path in known]
    ends = known | {ROOT_PATH}
    return [joint for joint in snapshot.joints if _is_usable_joint(joint, ends, diagnostics)]


def _unique_occurrences(occurrences: Iterable[OccurrenceElement], diagnostics: Diagnostics) -> list[OccurrenceElement]:
    first: dict[str, OccurrenceElement] = {}
    for occurrence in occurrences:
        if occurrence.path in first:
            message = f'occurrence "{occurrence.path}" stands in the snapshot again; this one is left out'
            diagnostics.error(f"{FORMAT}.duplicate-path", message, origin=occurrence.origin)
        else:
            first[occurrence.path] = occurrence
    return list(first.values())


def _check_parents(occurrences: list[OccurrenceElement], diagnostics: Diagnostics) -> None:
    """Repair the `parent` paths in place so that the occurrences form a forest of bounded depth."""
    by_path = {o.path: o for o in occurrences}
    depth: dict[str, int] = {ROOT_PATH: 0}
    for occurrence in occurrences:
        if occurrence.parent != ROOT_PATH and occurrence.parent not in by_path:
            message = (
                f'occurrence "{occurrence.path}" is nested in {occurrence.parent!r:.80}, which is no occurrence; '
                "it is taken to lie in the root component"
            )
            diagnostics.error(f"{FORMAT}.unknown-occurrence", message, origin=occurrence.origin)
            occurrence.parent = ROOT_PATH
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
            diagnostics.error(f"{FORMAT}.nesting", message, origin=occurrence.origin)
            occurrence.parent = ROOT_PATH
            chain, path = [occurrence.path], ROOT_PATH
        for above in reversed(chain):
            depth[above] = depth[by_path[above].parent] + 1


def _missing_paths(paths: Iterable[str], known: set[str]) -> list[str]:
    return [path for path in paths if path not in known]


def _is_usable_joint(joint: JointElement, known: set[str], diagnostics: Diagnostics) -> bool:
    """Whether a joint is not suppressed and connects two different existing occurrences."""
    if joint.suppressed:
        message = f'joint "{joint.name}" is suppressed and left out'
        diagnostics.note(f"{FORMAT}.suppressed", message, origin=joint.origin)
        return False
    for end in _missing_paths((joint.occurrence_one, joint.occurrence_two), known):
        message = f'joint "{joint.name}" refers to {end!r:.80}, which is no occurrence; it is left out'
        diagnostics.error(f"{FORMAT}.unknown-occurrence", message, origin=joint.origin)
        return False
    if joint.occurrence_one == joint.occurrence_two:
        what = "the root component" if joint.occurrence_one == ROOT_PATH else f'"{joint.occurrence_one}"'
        message = f'joint "{joint.name}" joins {what} to itself; it is left out'
        diagnostics.error(f"{FORMAT}.joint-to-itself", message, origin=joint.origin)
        return False
    return True


# -- grouping into rigid bodies ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class RigidBody:
    """Occurrences that form one link."""

    primary: OccurrenceElement
    """The occurrence that gives the link its name and frame."""
    members: list[OccurrenceElement]
    """All occurrences, the primary first."""
    referenced: list[OccurrenceElement] = field(default_factory=list)
    """Members other than the primary that joints or rigid groups refer to."""


@dataclass(slots=True, eq=False)
class LinkGrouping:
    """Groups the occurrences of a snapshot with valid references into links."""

    snapshot: Snapshot
    joints: list[JointElement]
    """Usable joints: not suppressed, with existing ends."""
    diagnostics: Diagnostics
    by_path: dict[str, OccurrenceElement] = field(init=False)
    order: dict[str, int] = field(init=False)
    depth: dict[str, int] = field(init=False)
    same_link: DisjointSets[str] = field(init=False)
    """Sets of occurrences of the same link."""
    connected: DisjointSets[str] = field(init=False)
    """Sets of occurrences connected by links and joints."""
    referenced: set[str] = field(init=False)
    """Occurrences with a joint, rigid group or ground."""

    joint_parents: dict[str, set[str]] = field(default_factory=dict)
    """Occurrence -> its parents in joints."""
    subassembly_root: dict[str, str] = field(default_factory=dict)
    """Sub-assembly -> root of the kinematic tree of its jointed occurrences."""

    def __post_init__(self) -> None:
        occurrences = self.snapshot.occurrences
        self.by_path = {o.path: o for o in occurrences}
        self.order = {path: i for i, path in enumerate(self.by_path)}
        self.depth = {path: sum(1 for _ in self._ancestors(path)) for path in self.by_path}
        self.same_link = DisjointSets([ROOT_PATH, *self.by_path])
        self.connected = DisjointSets([ROOT_PATH, *self.by_path])
        self.referenced = {end for joint in self.joints for end in (joint.occurrence_one, joint.occurrence_two)}
        self.referenced |= {o.path for o in occurrences if is_grounded(o) or o.grounded_to_parent}

    def bodies(self) -> list[RigidBody]:
        """The rigid bodies (links), in the order of their first occurrence."""
        self._merge_rigid_groups()
        for joint in self.joints:
            self.connected.union(joint.occurrence_two, joint.occurrence_one)
            self.joint_parents.setdefault(joint.occurrence_one, set()).add(joint.occurrence_two)
        for occurrence in self.snapshot.occurrences:
            if is_grounded(occurrence):
                self.connected.union(ROOT_PATH, occurrence.path)
        self._attach_jointed_clusters()
        self._attach_unreferenced_occurrences()
        result = []
        for paths in self.same_link.sets():
            members = [self.by_path[p] for p in paths if p != ROOT_PATH]
            if any(m.has_mass_or_bodies or m.path in self.referenced for m in members):
                result.append(self._rigid_body(members))
        return result

    def _rigid_body(self, members: list[OccurrenceElement]) -> RigidBody:
        members = sorted(members, key=lambda m: self._primary_order(m.path))
        named = [m for m in members[1:] if m.path in self.referenced]
        return RigidBody(members[0], members, named)

    def _primary_order(self, path: str) -> tuple[bool, int, int]:
        return path not in self.referenced, self.depth[path], self.order[path]

    def _ancestors(self, path: str) -> Iterator[str]:
        """Paths of the occurrences that contain an occurrence, innermost first."""
        path = self.by_path[path].parent
        while path != ROOT_PATH:
            yield path
            path = self.by_path[path].parent

    def _merge(self, a: str, b: str) -> None:
        self.same_link.union(a, b)
        self.connected.union(a, b)

    # -- rule 1: rigid groups -------------------------------------------------------------------------------------

    def _merge_rigid_groups(self) -> None:
        """Merge the members of rigid groups, and occurrences grounded to their parent."""
        for group in self.snapshot.rigid_groups:
            if group.suppressed:
                message = f'rigid group "{group.name}" is suppressed and left out'
                self.diagnostics.note(f"{FORMAT}.suppressed", message, origin=group.origin)
                continue
            self.referenced.update(group.occurrences)
            for member in group.occurrences[1:]:
                self._merge(group.occurrences[0], member)
        for occurrence in self.snapshot.occurrences:
            if occurrence.grounded_to_parent and occurrence.parent != ROOT_PATH:
                self._merge(occurrence.parent, occurrence.path)

    # -- rules 2 and 3: containment --------------------------------------------------------------------------------

    def _is_link_candidate(self, path: str) -> bool:
        return path in self.referenced or self.by_path[path].has_mass_or_bodies

    def _attach_jointed_clusters(self) -> None:
        """Merge the root of each jointed cluster with the containing occurrence that no joint connects to it."""
        carried: dict[str, list[str]] = {}
        for path in self._sort_by_depth(self.referenced - {ROOT_PATH}):
            carrier = next((a for a in self._ancestors(path) if self._is_link_candidate(a)), None)
            if carrier is not None:
                carried.setdefault(carrier, []).append(path)
        for carrier, paths in carried.items():
            clusters: dict[str, list[str]] = {}
            for path in paths:
                if not self.connected.are_connected(carrier, path):
                    clusters.setdefault(self.connected.find(path), []).append(path)
            for cluster in clusters.values():
                self._merge(carrier, self._kinematic_root(cluster))

    def _sort_by_depth(self, paths: Iterable[str]) -> list[str]:
        return sorted(paths, key=lambda p: (self.depth[p], self.order[p]))

    def _kinematic_root(self, paths: Iterable[str]) -> str:
        """First path that is not a joint child of another given path; the first path if there is none."""
        candidates = self._sort_by_depth(paths)
        within = set(candidates)
        return next((p for p in candidates if not within & self.joint_parents.get(p, set())), candidates[0])

    def _attach_unreferenced_occurrences(self) -> None:
        """Merge occurrences without joint, group or ground with a containing or neighbouring link.

        Guessed attachments are reported with a warning.
        """
        guesses: dict[str, list[str]] = {}
        jointed_inside: dict[str, list[str]] = {}
        for path in self.referenced - {ROOT_PATH}:
            for ancestor in self._ancestors(path):
                jointed_inside.setdefault(ancestor, []).append(path)
        self.subassembly_root = {ancestor: self._kinematic_root(paths) for ancestor, paths in jointed_inside.items()}
        for path in self._sort_by_depth(self.by_path):
            if path in self.referenced or not self.by_path[path].has_mass_or_bodies:
                continue
            ancestors = list(self._ancestors(path))
            carrier = next((a for a in ancestors if self._is_link_candidate(a)), None)
            if carrier is None and ancestors:
                carrier, is_guess = self._guess_carrier(ancestors)
                if is_guess:
                    guesses.setdefault(carrier, []).append(self.by_path[path].name)
            if carrier is not None:
                self._merge(carrier, path)
        for carrier, names in guesses.items():
            shown = ", ".join(f'"{n}"' for n in names[:5]) + (", ..." if len(names) > 5 else "")
            one = len(names) == 1
            what = "this part has" if one else f"these {len(names)} parts have"
            message = (
                f"{shown}: {what} no joint, rigid group or ground; "
                f'{"it is" if one else "they are"} taken to be rigid with "{self.by_path[carrier].name}"'
            )
            hint = "add a rigid group or a joint in the CAD program"
            self.diagnostics.warning(f"{FORMAT}.loose-part", message, hint=hint, origin=self.by_path[carrier].origin)

    def _guess_carrier(self, ancestors: list[str]) -> tuple[str, bool]:
        """Carrier of an occurrence without containing link: a jointed neighbour (a guess), or the sub-assembly."""
        for ancestor in ancestors:
            if ancestor in self.subassembly_root:
                return self.subassembly_root[ancestor], True
        return ancestors[-1], False


def is_grounded(occurrence: OccurrenceElement) -> bool:
    """Whether an occurrence is fixed in the root component."""
    return occurrence.grounded or (occurrence.grounded_to_parent and occurrence.parent == ROOT_PATH)
