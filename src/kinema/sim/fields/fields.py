"""Fields on demand: any array of the contract, computed when it is read after something changed.

A group of fields is one program, traced and compiled when the first of them is read, and run again when one is read
after a step or a setter. What nobody reads costs nothing. Where a step is loops over tables, so are its fields.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kinema.backend import Arena, Arguments, Device, Field, Kernel, Layout, Source, settle
from kinema.foundation import KinemaError, clean_name, content_digest
from kinema.model import Model
from kinema.trace import Place

from ..arrays import Owner
from ..settings import Drive, Settings
from .info import dofs_info, links_info
from .names import DOFS, JACOBIAN, OWNERS, ROWS, SPACES, FieldInfo, n_items, outputs_of, shape_of
from .quantity import Quantity

if TYPE_CHECKING:
    from kinema.trace import Program

    from ..lower.programs import Outputs
    from .situation import Situation

Run = Callable[["Situation"], None]
"""Records what computes the fields of a group."""

OUT = "new "
"""What the names of results start with in programs: the state has some arrays of the same names."""
DRIVEN = {"loads", "forces", "contacts", "laws of contacts", "sensors", "solution", "rows", "rows against rows"}
"""Groups that depend on what the step listens to."""


class Host(Protocol):
    """What fields need of the engine that they are computed for."""

    model: Model
    settings: Settings
    n_envs: int
    device: Device
    precision: str
    lanes: int
    threads: int | None
    is_rolled: bool
    digest: str
    wait: bool
    state: Arena
    told: Arena
    uniform: Arena
    places: dict[str, Place]

    @property
    def name(self) -> str:
        """What profilers call its programs."""
        ...

    @property
    def version(self) -> object:
        """Another one whenever anything may have changed."""
        ...

    def settle(self) -> None:
        """Let everything follow from what was set."""
        ...

    @property
    def progress(self) -> Callable[[str], AbstractContextManager[None]]:
        """Says what is being done, while it is."""
        ...


class Space:
    """The fields of links, of degrees of freedom, of constraints, or of everything."""

    def __init__(self, fields: Fields, name: str) -> None:
        self._fields = fields
        self._name = name
        self._known = {info.name: info for info in SPACES[name]}

    def __getattr__(self, name: str) -> Quantity:
        info = self.__dict__["_known"].get(name)
        if info is None:
            raise AttributeError(f"{self._name} has no field {name!r}; it has: {', '.join(self._known)}")
        return self._fields.quantity(self._name, info)

    def __dir__(self) -> list[str]:
        return list(self._known)


class _Group:
    """One program, where its results lie, and for which version of the state they are."""

    def __init__(self, engine: Host, name: str, run: Callable[[], Run], outputs: Outputs) -> None:
        self._engine = engine
        self._name = name
        self._run = run
        """Finds what records the program, which is imported only where it is not in the cache."""
        self._outputs = outputs
        """Array -> what it belongs to, numbers to an item, and numbers in all."""
        self._version: object = None
        self._launches: dict[object, Callable[[], None]] = {}
        model, settings = engine.model, engine.settings
        sizes = {array: n_items(model, owner, settings) * width for array, (owner, width) in outputs.items()}
        layout = Layout.of("out", [(f"{OUT}{array}", size) for array, size in sizes.items()])
        self.arena = Arena(layout, engine.n_envs, engine.device, engine.precision)
        self._launch()

    def _launch(self) -> Callable[[], None]:
        engine = self._engine
        key = engine.settings.drive if self._name in DRIVEN else None
        if key not in self._launches:
            with engine.progress(f"compiling the fields of group {self._name}"):
                self._launches[key] = self._compile()
        return self._launches[key]

    def _compile(self) -> Callable[[], None]:
        engine = self._engine
        owners = {f"{OUT}{array}": known for array, known in self._outputs.items()}
        places = {**engine.places, **self.arena.layout.places()}

        def traced() -> Program:
            from ..lower.plan import field_program
            from .situation import Situation

            run = self._run()
            return field_program(
                engine.model,
                engine.settings,
                places,
                lambda sweeps, articulated: run(Situation(sweeps, articulated)),
                owners,
                rolled=engine.is_rolled,
                prefix=OUT,
            )

        settings = engine.settings if self._name in DRIVEN else replace(engine.settings, drive=Drive.COMMANDS)
        key = content_digest("fields", engine.digest, settings, engine.is_rolled, self._name, self._outputs)
        source = Source(traced, key, f"{engine.name}_{clean_name(self._name)}")
        kernel = Kernel(source, places, engine.device, engine.precision, lanes=engine.lanes, wait=engine.wait)
        arguments = Arguments(engine.state, engine.told.data, self.arena, engine.uniform, threads=engine.threads)
        return kernel.record(arguments)

    def field(self, name: str, count: int = 1) -> Field:
        """Where one of its fields lies, with those that follow it."""
        start, size = self.arena.layout.rows[f"{OUT}{name}"]
        return Field(self.arena.data[start : start + count * size], self.arena.n_envs)

    def refresh(self) -> None:
        """Run, if anything changed."""
        self._engine.settle()
        if self._version != self._engine.version:
            self.run()

    def run(self) -> None:
        """Compute all fields of the group from the present state."""
        self._launch()()
        settle(self._engine.device)
        self._version = self._engine.version


class Fields:
    """All fields of an engine, by namespace."""

    def __init__(self, engine: Host) -> None:
        self._engine = engine
        self._groups: dict[object, _Group] = {}
        self._zeros: Arena | None = None
        self._previous: _Group | None = None
        self.links_state = self.links = Space(self, "links_state")
        self.dofs_state = self.dofs = Space(self, "dofs_state")
        self.constraints = Space(self, "constraints")
        self.ties = Space(self, "ties")
        self.couplings = Space(self, "couplings")
        self.contacts = Space(self, "contacts")
        self.sensors = Space(self, "sensors")
        self.system = Space(self, "system")

    @property
    def links_info(self) -> SimpleNamespace:
        """What does not change of links: NumPy arrays."""
        return links_info(self._engine.model)

    @property
    def dofs_info(self) -> SimpleNamespace:
        """What does not change of degrees of freedom: NumPy arrays."""
        return dofs_info(self._engine.model)

    @property
    def constraints_info(self) -> SimpleNamespace:
        """What the rows of constraints are: `kinds`, `laws` and `names`, in the order of `constraints.jac`."""
        from .rows import rows_info

        return rows_info(self._engine.model, self._engine.settings)

    def forget(self) -> None:
        """Compile everything anew when it is asked for again: what it is computed from has another form."""
        self._groups.clear()

    def jacobian(self, link: int) -> Quantity:
        """Velocity of a link's origin by each joint velocity, (6, n_dofs, n_envs): linear, then angular rows."""
        engine = self._engine
        n = engine.model.n_dofs
        if not 0 <= link < engine.model.n_links:
            raise KinemaError(f"there is no link number {link}; there are {engine.model.n_links}")
        if n == 0:
            raise KinemaError("nothing moves, so there is no Jacobian")
        key = ("jacobian", link)
        if key not in self._groups:
            outputs = dict.fromkeys(JACOBIAN, (Owner.DOF, 1))
            name = f"jacobian of link {link}"
            self._groups[key] = _Group(engine, name, lambda: _jacobian_of(link), outputs)
        group = self._groups[key]
        return Quantity(group.field(JACOBIAN[0], len(JACOBIAN)), (6, n, engine.n_envs), 2, group.refresh)

    def quantity(self, space: str, info: FieldInfo) -> Quantity:
        """A field of a namespace."""
        engine = self._engine
        owner = info.of or OWNERS[space]
        n = self._count(owner)
        if n == 0 or (space == "constraints" and engine.model.n_dofs == 0):
            lacking = {Owner.TIE: "ties", Owner.COUPLING: "couplings", Owner.CONTACT: "contacts", Owner.ROW: "rows"}
            lacking |= {Owner.READING: "sensors"}
            what = f"there are no {lacking[owner]}" if owner in lacking else "nothing moves"
            raise KinemaError(f"{what}, so there is no {space}.{info.name}")
        rows, refresh = self._rows(space, info)
        if owner is Owner.ENVIRONMENT:
            return Quantity(rows, (*info.item, engine.n_envs), 0 if not info.item else 1, refresh)
        inner = shape_of(info.item, engine.model, engine.settings)
        return Quantity(rows, (n, *inner, engine.n_envs), 2 if info.item in (DOFS, ROWS) else 1, refresh)

    def _count(self, owner: Owner) -> int:
        return n_items(self._engine.model, owner, self._engine.settings)

    def _rows(self, space: str, info: FieldInfo) -> tuple[Field, Callable[[], None]]:
        """Where a field lies, and what brings it up to date."""
        engine = self._engine
        name = "vel" if info.name == "vel_next" else info.name
        if info.group == "state" and engine.state.layout.rows.get(name, (0, 0))[1]:
            return engine.state.field(name), _nothing
        if info.group in ("state", "zeros") or (info.group == "sleep" and not engine.settings.sleep):
            return self._zero_rows(space, info), _nothing
        if info.group == "previous":
            return self._kept().field("vel_prev"), _nothing
        if info.group not in self._groups:
            self._groups[info.group] = _Group(
                engine, info.group, lambda: _run_of(info.group), outputs_of(info.group, engine.model, engine.settings)
            )
        group = self._groups[info.group]
        return group.field(info.name), group.refresh

    def _zero_rows(self, space: str, info: FieldInfo) -> Field:
        if self._zeros is None:
            engine = self._engine
            arrays = [
                (f"{s} {f.name}", self._count(OWNERS[s]) * int(np.prod(f.item)))
                for s in ("links_state", "dofs_state", "ties")
                for f in SPACES[s]
                if f.group in ("zeros", "state", "sleep")
            ]
            self._zeros = Arena(Layout.of("zeros", arrays), engine.n_envs, engine.device, engine.precision)
        return self._zeros.field(f"{space} {info.name}")

    def _kept(self) -> _Group:
        if self._previous is None:
            self._previous = _Group(self._engine, "previous", lambda: _present_velocity, {"vel_prev": (Owner.DOF, 1)})
            self._previous.run()
        return self._previous

    @property
    def keeps_previous(self) -> bool:
        """Whether somebody has asked for velocities before a step."""
        return self._previous is not None

    def keep_previous(self) -> None:
        """Remember the velocities: called before a step."""
        if self._previous is not None:
            self._previous.run()


def _nothing() -> None:
    pass


def _run_of(group: str) -> Run:
    from .groups import GROUPS

    return GROUPS[group]


def _jacobian_of(link: int) -> Run:
    from .groups import link_jacobian

    return link_jacobian(link)


def _present_velocity(now: Situation) -> None:
    s = now.s
    s.each_frame("velocities", lambda node: s.write("vel_prev", node, s.of("vel", node)))
