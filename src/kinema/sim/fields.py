"""Fields on demand: any array of the contract, computed when it is read after something changed.

A group of fields is one program, traced and compiled when the first of them is read, and run again when one is read
after a step or a setter. What nobody reads costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.backend import Arena, Arguments, Field, Kernel, Layout, synchronise
from kinema.foundation import KinemaError
from kinema.trace import Program, Value

from .field_list import SPACES, FieldInfo
from .field_programs import CONTROLLED, GROUPS, Outputs, link_jacobian
from .info import dofs_info, links_info
from .inputs import Inputs
from .programs import traced

if TYPE_CHECKING:
    from .engine import Engine


OUT = "new "
"""What the names of results start with in programs."""


class Quantity:
    """A field: items by environments, and each a number, vector or matrix. It always shows the present state."""

    def __init__(self, rows: Field, shape: tuple[int, ...], batch: int, refresh: Callable[[], None]) -> None:
        self._rows = rows
        self._stored = shape
        """As it lies in memory, environments last."""
        self._batch = batch
        """Where the environments are among the axes."""
        self._refresh = refresh

    @property
    def shape(self) -> tuple[int, ...]:
        """Such as (n_links, n_envs, 3)."""
        inner = self._stored[:-1]
        return (*inner[: self._batch], self._stored[-1], *inner[self._batch :])

    def numpy(self) -> np.ndarray:
        """As NumPy: a view of the memory on a CPU, a copy from a GPU."""
        self._refresh()
        return np.moveaxis(self._rows.numpy().reshape(self._stored), -1, self._batch)

    def to_torch(self) -> Any:
        """As a PyTorch tensor on the same memory; it changes when the field is read again after a step."""
        self._refresh()
        return self._rows.to_torch().unflatten(0, (*self._stored[:-1], 1)).squeeze(-2).movedim(-1, self._batch)

    @property
    def warp(self) -> Any:
        """The rows that it lies in as a Warp array (numbers, environments), without a copy."""
        self._refresh()
        return self._rows.warp

    def __repr__(self) -> str:
        return f"Quantity{self.shape}"


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
    """One program, where its results lie, and for which version of the state they are.

    The meaning of commands can change, and then so does the program of a group that depends on them.
    """

    def __init__(self, engine: Engine, name: str, outputs: Callable[[Inputs], Outputs]) -> None:
        self._engine = engine
        self._name = name
        self._outputs = outputs
        self._version: object = None
        self._launches: dict[object, Callable[[], None]] = {}
        program = self._program()
        self.arena = Arena(Layout.of("out", program.outputs.items()), engine.n_envs, engine.device, engine.precision)
        self._compile(program)

    @property
    def _key(self) -> object:
        return self._engine.settings if self._name in CONTROLLED else None

    def _program(self) -> Program:
        self._engine.progress(f"tracing and compiling the fields of group {self._name}")
        return traced(self._engine.model, self._engine.settings, self._named)

    def _named(self, inputs: Inputs) -> Outputs:
        """The outputs, told apart from arrays of the state that have the same names."""
        return {f"{OUT}{name}": values for name, values in self._outputs(inputs).items()}

    def field(self, name: str) -> Field:
        """Where one of its fields lies."""
        return self.arena.field(f"{OUT}{name}")

    def _compile(self, program: Program) -> None:
        engine = self._engine
        places = {**engine.places, **self.arena.layout.places()}
        kernel = Kernel(program, places, engine.device, engine.precision, engine.lanes)
        kernel.compile()
        arguments = Arguments(engine.state, engine.told.data, self.arena, threads=engine.threads)
        self._launches[self._key] = kernel.record(arguments)

    def refresh(self) -> None:
        """Run, if anything changed."""
        if self._version != self._engine.version:
            self.run()

    def run(self) -> None:
        """Compute all fields of the group from the present state."""
        if self._key not in self._launches:
            self._compile(self._program())
        self._launches[self._key]()
        synchronise(self._engine.device)
        self._version = self._engine.version


class Fields:
    """All fields of an engine, by namespace."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._groups: dict[object, _Group] = {}
        self._zeros: Arena | None = None
        self._previous: _Group | None = None
        self.links_state = Space(self, "links_state")
        self.dofs_state = Space(self, "dofs_state")
        self.constraints = Space(self, "constraints")
        self.system = Space(self, "system")

    @property
    def links_info(self) -> SimpleNamespace:
        """What does not change of links: NumPy arrays."""
        return links_info(self._engine.model)

    @property
    def dofs_info(self) -> SimpleNamespace:
        """What does not change of degrees of freedom: NumPy arrays."""
        return dofs_info(self._engine.model)

    def jacobian(self, link: int) -> Quantity:
        """Velocity of a link's origin by each joint velocity, (6, n_dofs, n_envs): linear, then angular rows."""
        engine = self._engine
        if not 0 <= link < engine.model.n_links:
            raise KinemaError(f"there is no link number {link}; there are {engine.model.n_links}")
        if engine.model.n_dofs == 0:
            raise KinemaError("nothing moves, so there is no Jacobian")
        group = self._group(("jacobian", link), f"jacobian of {engine.model.links.names[link]}", link_jacobian(link))
        rows = group.field("jacobian")
        return Quantity(rows, (6, engine.model.n_dofs, engine.n_envs), 2, group.refresh)

    def quantity(self, space: str, info: FieldInfo) -> Quantity:
        """A field of a namespace."""
        engine = self._engine
        n = {"links_state": engine.model.n_links, "system": 1}.get(space, engine.model.n_dofs)
        if n == 0:
            raise KinemaError(f"nothing moves, so there is no {space}.{info.name}")
        rows, refresh = self._rows(space, info)
        if space == "system":
            return Quantity(rows, (*info.item, engine.n_envs), 0 if not info.item else 1, refresh)
        if info.item == (-1,):
            return Quantity(rows, (n, n, engine.n_envs), 2, refresh)
        return Quantity(rows, (n, *info.item, engine.n_envs), 1, refresh)

    def _rows(self, space: str, info: FieldInfo) -> tuple[Field, Callable[[], None]]:
        """Where a field lies, and what brings it up to date."""
        engine = self._engine
        name = "vel" if info.name == "vel_next" else info.name
        if info.group == "state" and name in engine.state.layout.rows:
            return engine.state.field(name), _nothing
        if info.group in ("state", "zeros"):
            return self._zero_rows(space, info), _nothing
        if info.group == "previous":
            return self._kept().field("vel_prev"), _nothing
        group = self._group(info.group, info.group, GROUPS[info.group])
        return group.field(info.name), group.refresh

    def _group(self, key: object, name: str, outputs: Callable[[Inputs], Outputs]) -> _Group:
        if key not in self._groups:
            self._groups[key] = _Group(self._engine, name, outputs)
        return self._groups[key]

    def _zero_rows(self, space: str, info: FieldInfo) -> Field:
        if self._zeros is None:
            engine = self._engine
            counts = {"links_state": engine.model.n_links, "dofs_state": engine.model.n_dofs}
            arrays = [
                (f"{s} {f.name}", n * int(np.prod(f.item)))
                for s, n in counts.items()
                for f in SPACES[s]
                if f.group in ("zeros", "state")
            ]
            self._zeros = Arena(Layout.of("zeros", arrays), engine.n_envs, engine.device, engine.precision)
        return self._zeros.field(f"{space} {info.name}")

    def _kept(self) -> _Group:
        if self._previous is None:
            self._previous = _Group(self._engine, "previous", _present_velocity)
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


def _present_velocity(inputs: Inputs) -> dict[str, list[Value]]:
    return {"vel_prev": inputs.v}
