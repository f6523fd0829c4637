"""What is measured of joints: their coordinates, speeds and forces."""

from __future__ import annotations

from kinema import trace
from kinema.trace import RowCode, Value

from ..arrays import Owner
from ..fields.situation import Situation
from ..force import cords
from ..force.links import no_wrenches
from ..rigid.rnea import joint_forces
from ..sweeps.maths import dot, scale
from ..sweeps.quantities import Quantity
from ..sweeps.tree import Node
from .readings import ReadingKind, Readings, tell

COORDINATES = ("jointpos", "ballquat")
SPEEDS = ("jointvel", "ballangvel")


def coordinates(now: Situation, readings: Readings, which: list[int]) -> None:
    """Of joints, as they are."""
    s, info = now.s, readings.info
    rows = [readings.plain(i, s.arrays_of(Owner.COORDINATE, int(info.item[i]))) for i in which]

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, ReadingKind)
        q = code.array("qpos", 4 if kind.name == "ballquat" else 1)
        tell(code, q if len(q) == 1 else scale(1.0 / trace.sqrt(dot(q, q)), q))

    s.loop("coordinates that are measured", rows, body)


def speeds(now: Situation, readings: Readings, which: list[int]) -> None:
    """Of joints, likewise."""
    s, info = now.s, readings.info
    rows = [readings.plain(i, s.arrays_of(Owner.DOF, int(info.item[i]))) for i in which]

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, ReadingKind)
        tell(code, code.array("vel", 3 if kind.name == "ballangvel" else 1))

    s.loop("speeds that are measured", rows, body)


def forces(now: Situation, readings: Readings, which: list[int]) -> None:
    """What control and actuators do to joints."""
    s, info = now.s, readings.info
    of_dof = s.places_of_dofs(driven_forces(now))
    rows = [readings.plain(i, {"force": of_dof[int(info.item[i])]}) for i in which]
    s.loop("forces that are measured", rows, lambda code: tell(code, [code.read("force")]))


def driven_forces(now: Situation) -> Quantity[list[Value]]:
    """Of each degree of freedom the force of control and actuators, thrusters on links among them."""
    s, parts, thrust = now.s, now.forces, thrust_on_joints(now)
    result: Quantity[list[Value]] = s.quantity("driven")

    def body(node: Node) -> None:
        _, _, control, actuators, *_ = parts[node.here]
        pushed = thrust[node.here]
        result.put(node.here, [a.force + b.force + c for a, b, c in zip(control, actuators, pushed, strict=True)])

    s.each_frame("what drives joints", body)
    return result


def thrust_on_joints(now: Situation) -> Quantity[list[Value]]:
    """What thrusters on links do to joints."""
    thrust = no_wrenches(now.s, "thrust")
    cords.actuators(now, thrust)
    return joint_forces(now.s, "thrust", now.where, lambda node: thrust[node.here])
