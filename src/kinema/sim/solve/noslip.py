"""Friction that holds without slip: once forces are found, those of friction again, until nothing gives way.

Soft friction creeps. With the normal forces, and those of all other constraints, as they were found, friction is made a
spring about the force that it has; what that finds is what the spring is about next, and so on. It arrives where
MuJoCo's `noslip` sweeps do, in a few of Newton's steps, none of which is harder to take than those before.
"""

from __future__ import annotations

from collections.abc import Callable

from kinema.trace import RowCode, Value

from ..collide.planned import SetKind
from ..collide.touches import Contact, each_contact
from ..constrain.contacts import Contacts
from ..constrain.laws import HARDER, Holding
from ..constrain.rows import BlockKind, Law, Rows, pushes
from ..sweeps.sweeps import Sweeps

ARRIVED = 1e-4
"""How small the slope of the cost is against the forces, before springs are about what they have found."""


TRIALS = 50
"""Along each step at least: where much slides the cost is bent at a few places only, which are not found at once."""


def may_slip(rows: Rows, contacts: Contacts | None) -> bool:
    """Whether there is any friction."""
    touching = contacts is not None and any(x.kind.dimension > 1 for x in contacts.touches.sets)
    return touching or any(block.law is Law.FRICTION for block in rows.blocks)


def stop_slipping(
    s: Sweeps,
    rows: Rows,
    contacts: Contacts | None,
    look_downhill: Callable[[], None],
    step: Callable[[], tuple[Value, Value]],
    far_off: Callable[[float], Value],
) -> None:
    """From now on all but friction pushes as it did; step until friction holds as well as it can."""
    for block, places in zip(rows.blocks, rows.places, strict=True):
        places["kept"] = s.take(block.n_rows)
    law = Holding()
    rows.each("forces of constraints, kept", _keep)
    rows.held = True
    if contacts is not None:
        _each(contacts, "normal forces, kept", law.keep_normals)
        contacts.law = law
    rows.each("friction of joints, hard", _harden)
    look_downhill()

    def keep() -> None:
        rows.each("forces of constraints, kept", _keep)
        if contacts is not None:
            _each(contacts, "friction, kept", law.keep_friction)
        look_downhill()

    def again() -> tuple[Value, Value]:
        for hopes in (True, False):
            rows.hopes = law.hopes = hopes
            step()
        s.where("springs have arrived", 1.0 - far_off(ARRIVED), keep)
        return 0.5, far_off(0.0)

    s.repeat("no slip", again, s.settings.noslip_iterations)


def _each(contacts: Contacts, name: str, what: Callable[[Contact, SetKind], None]) -> None:
    def body(code: RowCode, kind: SetKind) -> None:
        each_contact(code, kind.dimension, lambda contact: what(contact, kind))

    contacts.touches.each(name, body)


def _keep(code: RowCode) -> None:
    """The forces that there are."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    code.write("kept", [force for force, _ in pushes(code, code.array("residual", kind.n_rows))])


def _harden(code: RowCode) -> None:
    kind: BlockKind = code.kind  # type: ignore[assignment]
    if kind.law is Law.FRICTION:
        code.write("stiffness", [HARDER * x for x in code.array("stiffness", kind.n_rows)])
