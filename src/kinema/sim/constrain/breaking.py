"""Joints that break: once what holds them bears more than they can, they let go, in that environment alone."""

from __future__ import annotations

from kinema import trace
from kinema.trace import Row, RowCode, Value

from ..arrays import Owner
from ..sweeps.maths import Vector, add, dot, scale
from ..sweeps.sweeps import Sweeps
from .rows import Rows

UNBROKEN = 1e30
"""A force that nothing breaks at."""


def note_broken(s: Sweeps, rows: Rows) -> None:
    """The array `broken`, from the forces of this step: those of ties, and of distances that are kept."""
    info, table = s.model.ties, []
    for block, places in zip(rows.blocks, rows.places, strict=True):
        if block.holder < 0 or not ("wrenches" in places or "coupling" in block.tells or "tendon limit" in block.tells):
            continue
        if "wrenches" not in places and info.parts[block.holder]:
            continue  # what stops or moves it along its axes does not tear at it
        own = s.arrays_of(Owner.TIE, block.holder)["broken"]
        most = [min(float(x[block.holder]), UNBROKEN) for x in (info.break_force, info.break_torque)]
        kind = ("wrenches" if "wrenches" in places else "length", block.n_rows)
        table.append(Row(kind, {**places, "broken": own}, {"most": most}))
    s.loop("joints that break", table, _write)


def _write(code: RowCode) -> None:
    what, n_rows = code.kind  # type: ignore[misc]
    forces = code.array("force", n_rows)
    torque: Vector = [0.0, 0.0, 0.0]
    force: Vector = [forces[0], 0.0, 0.0]
    if what == "wrenches":
        force = [0.0, 0.0, 0.0]
        for r, size in enumerate(forces):
            torque = add(torque, scale(size, [code.read("wrenches", 6 * r + i) for i in range(3)]))
            force = add(force, scale(size, [code.read("wrenches", 6 * r + 3 + i) for i in range(3)]))
    broken: Value = code.read("broken")
    for most, bears in zip(code.numbers("most"), (force, torque), strict=True):
        broken = trace.select(most, trace.sqrt(dot(bears, bears)), 1.0, broken)
    code.write("broken", [broken])
