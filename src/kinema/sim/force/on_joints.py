"""All that acts on the degrees of freedom of each frame, but for what comes from its motion."""

from __future__ import annotations

from kinema.trace import Value

from ..sweeps.cords import Cords, Pull
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node
from . import joints


def forces_on_joints(
    s: Sweeps, tendons: Cords, actuators: Cords, weight: Quantity[list[Value]] | None, mass: TreeMatrix | None
) -> Quantity[list[list[Pull]]]:
    """Passive, tendons, control, actuators, the user's; `weight` is what those bear that links are spared."""
    forces: Quantity[list[list[Pull]]] = s.quantity("forces")

    def body(node: Node) -> None:
        inertia = mass.diagonal(node) if mass is not None and node.per_inertia else []
        passive, driven = joints.passive(s, node), actuators.on(node)
        if weight is not None and node.bears_weight:
            driven = joints.plus(driven, weight[node.here])
        elif weight is not None:
            passive = joints.plus(passive, weight[node.here])
        bounds = zip(s.of("effort_lower", node), s.of("effort_upper", node), strict=True)
        driven = [joints.bounded(p, *b) for p, b in zip(driven, bounds, strict=True)]
        own = [passive, tendons.on(node), joints.control(s, node, inertia), driven]
        forces.put(node.here, own if not s.settings.external_forces else [*own, joints.applied(s, node)])

    s.each_frame("forces on joints", body)
    return forces


def both(s: Sweeps, name: str, force: Quantity[list[Value]], more: Quantity[list[Value]]) -> Quantity[list[Value]]:
    """Forces, and more forces."""
    total: Quantity[list[Value]] = s.quantity(name)

    def body(node: Node) -> None:
        total.put(node.here, [a + b for a, b in zip(force[node.here], more[node.here], strict=True)])

    s.each_frame(name, body)
    return total
