"""Cases for the rules about articulations: links of a USD stage inside each other."""

from __future__ import annotations

from kinema.description import Robot

from .robots_to_check import arm
from .rule_cases import case


def _nested(root: str | None) -> Robot:
    """The clean arm as a stage with nested bodies has it."""
    robot = arm(format="usd")
    for inner, outer in (("upper", "base"), ("fore", "upper"), ("tool", "fore")):
        robot.link(inner).nested_in = outer
    for link in robot.links:
        if root is not None:
            link.attributes["usd:articulation"] = root
    return robot


@case("articulation.nesting")
def nesting() -> tuple[Robot, Robot]:
    """Nested bodies without, and within, an articulation."""
    return _nested(None), _nested("/arm/base")


@case("articulation.kinematic")
def kinematic() -> tuple[Robot, Robot]:
    """A kinematic link below a simulated one; and a run of kinematic links from the root."""
    bad, good = _nested("/arm/base"), _nested("/arm/base")
    bad.link("fore").kinematic = True
    for name in ("base", "upper"):
        good.link(name).kinematic = True
    return bad, good
