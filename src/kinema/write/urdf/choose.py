"""The one robot that a URDF file can hold."""

from __future__ import annotations

from kinema.description import Robot, World
from kinema.foundation import WriteError

from ..report import Action, Loss, LossReport


def choose_robot(described: Robot | World, wanted: str, report: LossReport) -> Robot:
    """The robot to write: the one that is wanted, or the only one that moves, or the only one.

    Raises:
        WriteError: there is none, or none can be chosen without being told.
    """
    if isinstance(described, Robot):
        if wanted and wanted != described.name:
            raise WriteError(f'there is no robot "{wanted}"; there is only "{described.name}"')
        return described
    robots = described.robots
    names = ", ".join(f'"{r.name}"' for r in robots)
    if not robots:
        raise WriteError("there is no robot in this world, and URDF can hold nothing else")
    if wanted:
        candidates = [r for r in robots if r.name == wanted]
        if not candidates:
            raise WriteError(f'there is no robot "{wanted}" in this world; there are {names}')
    else:
        candidates = [r for r in robots if not r.static] or robots
        if len(candidates) > 1:
            called = ", ".join(f'"{r.name}"' for r in candidates)
            raise WriteError(f"URDF can hold one robot, and this world has {called}; say which one to write")
    chosen = candidates[0]
    for other in robots:
        if other is not chosen:
            how = "URDF can hold one robot"
            report.add(Loss(Action.DROPPED, "robot", other.name, "the robot", how, other.origin))
    for number, shape in enumerate(described.shapes):
        name = shape.name or f"{shape.kind} {number + 1} of the world"
        report.add(Loss(Action.DROPPED, "shape", name, "the static shape", "URDF has no scenery", shape.origin))
    return chosen
