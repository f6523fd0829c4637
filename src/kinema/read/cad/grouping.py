"""Which occurrences are one rigid body.

A link is made of occurrences that cannot move against each other:

1. the members of a rigid group, and an occurrence that is grounded to its parent with that parent;
2. an occurrence without a joint, group or ground of its own with the occurrence it is nested in, which carries it;
3. where an occurrence has joints, but they only lead to others inside the same sub-assembly, the root of these is
   carried by the sub-assembly.

Rigid joints make no link bigger: they become fixed joints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kinema.foundation import Diagnostics

from .disjoint import DisjointSets
from .elements import JointElement, OccurrenceElement, Snapshot
from .schema import FORMAT, ROOT


@dataclass(slots=True, eq=False)
class RigidBody:
    """Occurrences that make one link."""

    lead: OccurrenceElement
    """The one whose name and frame the link takes."""
    members: list[OccurrenceElement]
    """All, the lead first."""
    named: list[OccurrenceElement] = field(default_factory=list)
    """Those, beside the lead, that joints or rigid groups refer to."""


@dataclass(slots=True, eq=False)
class Grouping:
    """Works out the links of a snapshot whose references are sound."""

    snapshot: Snapshot
    joints: list[JointElement]
    """Those that count: their ends exist, and they are not suppressed."""
    diagnostics: Diagnostics
    by_path: dict[str, OccurrenceElement] = field(init=False)
    order: dict[str, int] = field(init=False)
    depth: dict[str, int] = field(init=False)
    together: DisjointSets[str] = field(init=False)
    """Occurrences of one link."""
    reach: DisjointSets[str] = field(init=False)
    """Occurrences that links and joints connect."""
    mentioned: set[str] = field(init=False)
    """Occurrences with a joint, rigid group or ground of their own."""

    hangs_on: dict[str, set[str]] = field(default_factory=dict)
    """An occurrence -> those that are its parents in joints."""
    root_of: dict[str, str] = field(default_factory=dict)
    """A sub-assembly -> the part in it on which its other jointed parts hang."""

    def __post_init__(self) -> None:
        occurrences = self.snapshot.occurrences
        self.by_path = {o.path: o for o in occurrences}
        self.order = {path: i for i, path in enumerate(self.by_path)}
        self.depth = {path: sum(1 for _ in self._ancestors(path)) for path in self.by_path}
        self.together = DisjointSets([ROOT, *self.by_path])
        self.reach = DisjointSets([ROOT, *self.by_path])
        self.mentioned = {end for joint in self.joints for end in (joint.one, joint.two)}
        self.mentioned |= {o.path for o in occurrences if is_grounded(o) or o.grounded_to_parent}

    def bodies(self) -> list[RigidBody]:
        """The links, in the order of their first occurrence."""
        self._unite_groups()
        for joint in self.joints:
            self.reach.unite(joint.two, joint.one)
            self.hangs_on.setdefault(joint.one, set()).add(joint.two)
        for occurrence in self.snapshot.occurrences:
            if is_grounded(occurrence):
                self.reach.unite(ROOT, occurrence.path)
        self._carry_clusters()
        self._carry_loose_parts()
        result = []
        for paths in self.together.sets():
            members = [self.by_path[p] for p in paths if p != ROOT]
            if any(m.has_matter or m.path in self.mentioned for m in members):
                result.append(self._body(members))
        return result

    def _body(self, members: list[OccurrenceElement]) -> RigidBody:
        members = sorted(members, key=lambda m: self._rank(m.path))
        named = [m for m in members[1:] if m.path in self.mentioned]
        return RigidBody(members[0], members, named)

    def _rank(self, path: str) -> tuple[bool, int, int]:
        return path not in self.mentioned, self.depth[path], self.order[path]

    def _ancestors(self, path: str) -> Iterator[str]:
        """The occurrences around one, the nearest first."""
        path = self.by_path[path].parent
        while path != ROOT:
            yield path
            path = self.by_path[path].parent

    def _join(self, a: str, b: str) -> None:
        self.together.unite(a, b)
        self.reach.unite(a, b)

    # -- 1: what the file says ------------------------------------------------------------------------------------

    def _unite_groups(self) -> None:
        for group in self.snapshot.rigid_groups:
            if group.suppressed:
                message = f'rigid group "{group.name}" is suppressed and left out'
                self.diagnostics.note(f"{FORMAT}.suppressed", message, origin=group.place)
                continue
            self.mentioned.update(group.occurrences)
            for member in group.occurrences[1:]:
                self._join(group.occurrences[0], member)
        for occurrence in self.snapshot.occurrences:
            if occurrence.grounded_to_parent and occurrence.parent != ROOT:
                self._join(occurrence.parent, occurrence.path)

    # -- 2 and 3: what carries what -------------------------------------------------------------------------------

    def _counts(self, path: str) -> bool:
        return path in self.mentioned or self.by_path[path].has_matter

    def _carry_clusters(self) -> None:
        """Jointed parts inside an occurrence that is a link itself, with no joint that leads to it."""
        carried: dict[str, list[str]] = {}
        for path in self._outside_in(self.mentioned - {ROOT}):
            carrier = next((a for a in self._ancestors(path) if self._counts(a)), None)
            if carrier is not None:
                carried.setdefault(carrier, []).append(path)
        for carrier, paths in carried.items():
            apart: dict[str, list[str]] = {}
            for path in paths:
                if not self.reach.same(carrier, path):
                    apart.setdefault(self.reach.find(path), []).append(path)
            for cluster in apart.values():
                self._join(carrier, self._root_most(cluster))

    def _outside_in(self, paths: Iterable[str]) -> list[str]:
        return sorted(paths, key=lambda p: (self.depth[p], self.order[p]))

    def _root_most(self, paths: Iterable[str]) -> str:
        """The one that hangs on none of the others; the first of them where there are several."""
        candidates = self._outside_in(paths)
        within = set(candidates)
        return next((p for p in candidates if not within & self.hangs_on.get(p, set())), candidates[0])

    def _carry_loose_parts(self) -> None:
        """Parts that nothing mentions ride on what they are nested in."""
        held_by: dict[str, list[str]] = {}
        beside: dict[str, list[str]] = {}
        for path in self.mentioned - {ROOT}:
            for ancestor in self._ancestors(path):
                beside.setdefault(ancestor, []).append(path)
        self.root_of = {ancestor: self._root_most(paths) for ancestor, paths in beside.items()}
        for path in self._outside_in(self.by_path):
            if path in self.mentioned or not self.by_path[path].has_matter:
                continue
            around = list(self._ancestors(path))
            carrier = next((a for a in around if self._counts(a)), None)
            if carrier is None and around:
                carrier, is_guess = self._neighbour(around)
                if is_guess:
                    held_by.setdefault(carrier, []).append(self.by_path[path].name)
            if carrier is not None:
                self._join(carrier, path)
        for carrier, names in held_by.items():
            shown = ", ".join(f'"{n}"' for n in names[:5]) + (", ..." if len(names) > 5 else "")
            one = len(names) == 1
            what = "this part has" if one else f"these {len(names)} parts have"
            message = (
                f"{shown}: {what} no joint, rigid group or ground; "
                f'{"it is" if one else "they are"} taken to be rigid with "{self.by_path[carrier].name}"'
            )
            hint = "add a rigid group or a joint in the CAD program"
            self.diagnostics.warning(f"{FORMAT}.loose-part", message, hint=hint, origin=self.by_path[carrier].place)

    def _neighbour(self, around: list[str]) -> tuple[str, bool]:
        """What carries a part whose sub-assemblies are no links: a jointed part beside it, or the sub-assembly."""
        for ancestor in around:
            if ancestor in self.root_of:
                return self.root_of[ancestor], True
        return around[-1], False


def is_grounded(occurrence: OccurrenceElement) -> bool:
    """Whether an occurrence is fixed in the root component."""
    return occurrence.grounded or (occurrence.grounded_to_parent and occurrence.parent == ROOT)
