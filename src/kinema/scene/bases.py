"""What holds the bases of robots whose files do not say: what a scene takes that for, and whether it can be meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from kinema.compile import Part
from kinema.description import Base, JointKind, Robot, TreeEdge, World
from kinema.foundation import Diagnostics

_WORDS = re.compile(r"wheel|caster|leg|foot|feet|ankle|thigh|calf|track|rotor|propeller", re.IGNORECASE)
_LEVEL = 0.1
"""How far apart in height feet may be, and how far below the base they are at least, against the robot's extent."""


def unsaid(part: Part) -> list[Robot]:
    """The robots of which neither the file nor the user says what holds them; they are bolted down."""
    if part.fixed is not None:
        return []
    whole = part.description
    robots = whole.robots if isinstance(whole, World) else [whole]
    return [r for r in robots if r.base is Base.UNSPECIFIED and not r.static and r.tree().roots]


def report_bases(part: Part, diagnostics: Diagnostics) -> None:
    """Say which bases are taken to be fixed; loudly of robots that look as if they drive, walk or fly."""
    for robot in unsaid(part):
        message = f'nothing says what holds the base of robot "{robot.name}": it is bolted down'
        hint = "fixed=False (--base free) lets it go, fixed=True (--base fixed) says that this is meant"
        why = looks_mobile(robot)
        if why:
            message = f"{message}, although it looks mobile: {why}"
            diagnostics.warning("sim.base-held", message, hint=hint, origin=robot.origin)
        else:
            diagnostics.note("sim.base-held", message, hint=hint, origin=robot.origin)


def looks_mobile(robot: Robot) -> str:
    """What makes a robot look as if it drives, walks or flies; empty where nothing does."""
    edges = [e for e in robot.tree().edges if any(j.n_dofs for j in e.joints)]
    named = [e.child for e in edges if _WORDS.search(e.child) or any(_WORDS.search(j.name) for j in e.joints)]
    if len(named) > 1:
        return f'there are "{named[0]}" and "{named[1]}"'
    leaves = list(_ends(robot, edges))
    wheels = [e.child for e in leaves if _rolls(robot, e)]
    if len(wheels) > 1:
        return f'"{wheels[0]}" and "{wheels[1]}" turn without limits about level axes'
    feet = _feet(robot, leaves)
    return f'it stands on "{feet[0]}" and "{feet[1]}"' if len(feet) > 1 else ""


def _ends(robot: Robot, edges: Sequence[TreeEdge]) -> Iterator[TreeEdge]:
    """The joints that nothing moves on."""
    carriers = {e.child: e.parent for e in robot.tree().edges}
    carrying: set[str | None] = set()
    for edge in edges:
        above = edge.parent
        while above is not None and above not in carrying:
            carrying.add(above)
            above = carriers.get(above)
    return (e for e in edges if e.child not in carrying)


def _rolls(robot: Robot, edge: TreeEdge) -> bool:
    joint = edge.joints[-1]
    if joint.kind is not JointKind.CONTINUOUS or joint.axes[0].mimic is not None or edge.parent is None:
        return False
    axis = (robot.link_poses()[edge.parent] @ joint.parent_pose).rotation @ joint.axes[0].direction
    return bool(abs(axis[2]) < 0.3)


def _feet(robot: Robot, leaves: Sequence[TreeEdge]) -> list[str]:
    """The ends of limbs that are alike lowest of all, well below the base."""
    poses = robot.link_poses()
    heights = {e.child: float(poses[e.child].position[2]) for e in leaves}
    base = float(np.mean([poses[root].position[2] for root in robot.tree().roots]))
    places = np.array([pose.position for pose in poses.values()])
    extent = float(np.ptp(places, axis=0).max()) if len(places) else 0.0
    lowest = min(heights.values(), default=base)
    if base - lowest < 2 * _LEVEL * extent:
        return []
    return [name for name, height in heights.items() if height - lowest <= _LEVEL * extent]
