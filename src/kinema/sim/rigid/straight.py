"""The driver that goes through a robot part by part: plain computation on floats, a straight line on symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from kinema.model import Model, Motion
from kinema.trace import Recorder, Value, repeat

from ..arrays import BY_NAME, Owner
from ..settings import Settings
from .maths import add
from .records import plus
from .straight_matrix import Outputs, StraightMatrix
from .sweeps import Cord, Cords, Health, Part, Pull, Quantity, Sweeps
from .tree import (
    WORLD,
    Forest,
    Inertia,
    Link,
    Node,
    Ref,
    Tree,
    frame_ref,
    grow,
    inertia_about_origin,
    link_of,
    link_ref,
)

R = TypeVar("R")
Read = Callable[[str, int], Value]
"""The number in an item of an array: a symbol while a program is traced, a float in tests."""


class Known(Quantity[R]):
    """A quantity in a dictionary."""

    def __init__(self) -> None:
        self.records: dict[Ref, R] = {}

    def __getitem__(self, ref: Ref) -> R:
        return self.records[ref]

    def put(self, ref: Ref, record: R) -> None:
        self.records[ref] = record

    def add(self, ref: Ref, more: R) -> None:
        self.records[ref] = plus(self.records[ref], more) if ref in self.records else more


class Straight(Sweeps):
    """One environment, or one copy of a part of a model."""

    def __init__(
        self,
        model: Model,
        settings: Settings,
        read: Read,
        *,
        recorder: Recorder | None = None,
        limbs: Mapping[int, int | None] | None = None,
        own: Mapping[str, Sequence[Value]] | None = None,
        change: Callable[[Node], Node] = lambda node: node,
    ) -> None:
        """`own` replaces constants of degrees of freedom, `change` those of frames: copies of a part may differ.

        Without a recorder it computes with plain numbers.
        """
        self.model = model
        self.settings = settings
        self._read = read
        self._recorder = recorder
        self._own = own or {}
        self.links = [self._link(i) for i in range(model.n_links)]
        tree = grow(model, self._inertias() if settings.per_env & {"mass_shift", "com_shift"} else None)
        self.tree = Tree([change(node) for node in tree.nodes], model, limbs or {})
        self.outputs: Outputs = {}

    def _link(self, link: int) -> Link:
        links = self.model.links
        mass: Value = float(links.inertial_mass[link])
        center: Sequence[Value] = links.inertial_pos[link].tolist()
        if "mass_shift" in self.settings.per_env:
            mass = mass + self._read("mass_shift", link)
        if "com_shift" in self.settings.per_env:
            center = add(center, [self._read("com_shift", 3 * link + i) for i in range(3)])
        return link_of(self.model, link, mass, center)

    def _inertias(self) -> dict[int, Inertia]:
        return {i: inertia_about_origin(x.mass, x.center, x.inertia) for i, x in enumerate(self.links)}

    # arrays

    def read(self, array: str, item: int = 0) -> Value:
        return self._read(array, item)

    def of(self, array: str, part: Part) -> list[Value]:
        info = BY_NAME.get(array)
        if info is not None and info.arena(self.settings) is not None:
            items = _items(info.owner, part)
            return [self._read(array, info.width * i + k) for i in items for k in range(info.width)]
        if array == "spring_quat":
            assert isinstance(part, Node)
            return self.model.frames.spring_quat[part.index].tolist()
        if array in self._own:
            return [self._own[array][d] for d in _items(Owner.DOF, part)]
        return getattr(self.model.dofs, array)[list(_items(Owner.DOF, part))].ravel().tolist()

    def write(self, array: str, part: Part | None, values: Sequence[Value]) -> None:
        rows = self.outputs.setdefault(array, {})
        start = 0
        if part is not None:
            info = BY_NAME.get(array)
            owner = info.owner if info is not None else (Owner.LINK if isinstance(part, Link) else Owner.DOF)
            items = _items(owner, part)
            start = items.start * (len(values) // len(items))
        rows.update({start + i: value for i, value in enumerate(values)})

    # ways through

    def quantity(self, name: str) -> Known[Any]:
        return Known()

    def each_frame(
        self,
        name: str,
        body: Callable[[Node], None],
        only: Sequence[int] | None = None,
        beside: int | None = None,
    ) -> None:
        for node in self.tree.nodes if only is None else [self.tree.nodes[i] for i in only]:
            body(node if beside is None else replace(node, beside=link_ref(beside)))

    def each_link(self, name: str, body: Callable[[Link], None]) -> None:
        for link in self.links:
            body(link)

    def outward(self, name: str, at_world: R, body: Callable[[Node, R], R]) -> Known[R]:
        result: Known[R] = Known()
        result.put(frame_ref(WORLD), at_world)
        for node in self.tree.nodes:
            result.put(node.here, body(node, result[node.above]))
        return result

    def inward(self, name: str, start: Callable[[Node], R], body: Callable[[Node, R], R]) -> Known[R]:
        total: Known[R] = Known()
        for node in self.tree.nodes:
            total.put(node.here, start(node))
        for node in reversed(self.tree.nodes):
            handed = body(node, total[node.here])
            if node.parent != WORLD:
                total.add(node.above, handed)
        return total

    def links_inward(self, name: str, start: Callable[[Link], R]) -> Known[R]:
        total: Known[R] = Known()
        for link in self.links:
            total.put(link.here, start(link))
        for link in reversed(outward_links(self.model)):
            above = self.links[link].above
            if above is not None:
                total.add(above, total[self.links[link].here])
        return total

    def links_by_root(self, name: str, start: Callable[[Link], R]) -> Known[R]:
        total: Known[R] = Known()
        for link in sorted(self.links, key=lambda x: x.above is not None):  # a root first: it may be without mass
            total.add(link.root, start(link))
        return total

    def total(self, name: str, forest: Forest, nothing: R, body: Callable[[Any], R]) -> R:
        total = nothing
        for part in self.tree.nodes if forest is Forest.FRAMES else self.links:
            total = plus(total, body(part))
        return total

    def cords(self, kind: str, which: Sequence[int], body: Callable[[Cord], Pull]) -> StraightCords:
        found = StraightCords(self)
        table = getattr(self.model, kind)
        for i in which:
            moment = moment_of(table, i)
            pull = body(self._cord(kind, i, moment))
            found.pulls.append((moment, pull))
            for dof, lever in moment.items():
                before = found.of_dof.get(dof, Pull(0.0, 0.0))
                more = Pull(before.force + lever * pull.force, before.slope + (lever * lever) * pull.slope)
                found.of_dof[dof] = more
        return found

    def _cord(self, kind: str, i: int, moment: Mapping[int, float]) -> Cord:
        table, dofs = getattr(self.model, kind), self.model.dofs
        length: Value = 0.0
        speed: Value = 0.0
        for dof, lever in moment.items():
            if dofs.q_idx[dof] >= 0:
                length = length + lever * self._read("qpos", int(dofs.q_idx[dof]))
            speed = speed + lever * self._read("vel", dof)

        def numbers(array: str) -> list[Value]:
            info = BY_NAME.get(array)
            if info is not None and info.owner is Owner.ACTUATOR:
                return [self._read(array, i)]
            return getattr(table, array)[i].reshape(-1).tolist()

        on = int(table.frame_idx[i]) if hasattr(table, "frame_idx") else WORLD
        return Cord(table.kinds[i], length, speed, numbers, None if on == WORLD else frame_ref(on))

    def repeat(
        self, name: str, carried: Quantity[list[Value]], step: Callable[[], tuple[Value, Value]], most: int
    ) -> None:
        refs = [node.here for node in self.tree.nodes]

        def put(values: Sequence[Value]) -> None:
            rest = iter(values)
            for ref in refs:
                carried.put(ref, [next(rest) for _ in carried[ref]])

        def run(values: Sequence[Value]) -> tuple[list[Value], Value, Value]:
            put(values)
            a, b = step()
            return [x for ref in refs for x in carried[ref]], a, b

        start = [x for ref in refs for x in carried[ref]]
        put(repeat(self._recorder, name, run, start, most))

    def health(self) -> StraightHealth:
        return StraightHealth(self)

    def matrix(
        self,
        name: str,
        own: Callable[[Node], tuple[Any, list[list[Value]]]],
        up: Callable[[Node, Node, Any], tuple[Any, list[list[Value]]]],
    ) -> StraightMatrix:
        entries: dict[tuple[int, int], Value] = {}
        for node in reversed(self.tree.nodes):
            carried, rows = own(node)
            above = node
            while True:
                for dof, row in zip(node.dofs, rows, strict=True):
                    entries.update({(dof, other): value for other, value in zip(above.dofs, row, strict=False)})
                if above.parent == WORLD:
                    break
                below, above = above, self.tree.nodes[above.parent]
                carried, rows = up(below, above, carried)
        return StraightMatrix(self.tree, self.outputs, entries)

    def results(self, sizes: Mapping[str, int] | None = None) -> dict[str, list[Value]]:
        """All that was written, by array; what was not is zero."""
        result = {}
        for array, rows in self.outputs.items():
            count = (sizes or {}).get(array, max(rows, default=-1) + 1)
            result[array] = [rows.get(i, 0.0) for i in range(count)]
        return result


def _items(owner: Owner, part: Part) -> range:
    if isinstance(part, Link):
        return range(part.index, part.index + 1)
    return part.qs if owner is Owner.COORDINATE else part.dofs


def moment_of(table: Any, i: int) -> dict[int, float]:
    """The levers of a cord, by degree of freedom."""
    return {int(d): float(table.moment[i, d]) for d in table.moment[i].nonzero()[0]}


def outward_links(model: Model) -> list[int]:
    """Links, those that others hang on first."""
    depth: dict[int, int] = {}

    def of(link: int) -> int:
        parent = int(model.links.parent_idx[link])
        if link not in depth:
            depth[link] = 0 if parent < 0 else of(parent) + 1
        return depth[link]

    return sorted(range(model.n_links), key=of)


class StraightCords(Cords):
    """Pulls, one after the other."""

    def __init__(self, sweeps: Straight) -> None:
        self.sweeps = sweeps
        self.pulls: list[tuple[dict[int, float], Pull]] = []
        self.of_dof: dict[int, Pull] = {}

    def on(self, node: Node) -> list[Pull]:
        return [self.of_dof.get(dof, Pull(0.0, 0.0)) for dof in node.dofs]

    def total_force(self) -> Value:
        total: Value = 0.0
        for _, pull in self.pulls:
            total = total + pull.force
        return total

    def couplings(self) -> dict[tuple[int, int], Value]:
        """Slopes between degrees of freedom, by one and another with a lower number."""
        result: dict[tuple[int, int], Value] = {}
        for moment, pull in self.pulls:
            for dof, lever in moment.items():
                for other, its in moment.items():
                    if other < dof:
                        result[dof, other] = result.get((dof, other), 0.0) + (lever * its) * pull.slope
        return result


class StraightHealth(Health):
    """A sum for each role."""

    def __init__(self, sweeps: Straight) -> None:
        self.tree = sweeps.tree
        self.sums: list[Value] = [0.0] * sweeps.settings.roles

    def note(self, node: Node, q: Sequence[Value], v: Sequence[Value]) -> None:
        role = self.tree.limbs.get(node.index) or 0
        # a turn that is not a number spoils all velocities; a slide, or the first turn of all, may leave them alone
        unseen = node.motion == Motion.SLIDE or node.parent == WORLD
        for x in (*(q if unseen else ()), *v):
            self.sums[role] = self.sums[role] + x

    def totals(self) -> list[Value]:
        return self.sums
