"""The finger of the nested-bodies proposal in its three forms, with what the proposal leaves out filled in.

`PROPOSAL` has the proposal's own numbers. `EXACT` has them rounded to what single precision holds, so that nothing is
lost in UsdPhysics' attributes and all three forms can be compared to the last digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinema.core import Pose
from kit.usd_stages import BODY, MASS, ROOT, placed, prim

Quaternion = tuple[float, float, float, float]
Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Segment:
    """A body, and the joint that holds it to the one before."""

    name: str
    pos: Vector
    quat: Quaternion
    joint: str = ""
    axis: str = "Z"
    limits: tuple[float, float] = (-30.0, 90.0)
    """[degrees]"""
    mass: float = 0.0625
    """[kg]"""
    center: Vector = (0.0, 0.0078125, 0.0)
    inertia: Vector = (2.0**-16, 2.0**-17, 2.0**-16)
    """[kg m2] about the centre, along the body's axes."""

    @property
    def pose(self) -> Pose:
        return Pose.from_quaternion(self.pos, self.quat)


PROPOSAL = (
    Segment("palm", (0, 0, 0.1), (0, 1, 0, 0), mass=0.5, inertia=(2.0**-11, 2.0**-12, 2.0**-11)),
    Segment(
        *("index_finger_base", (-0.007, 0.023, -0.0187), (0.500003, 0.5, 0.5, -0.499997)),
        *("metacarpophalangeal", "Z"),
    ),
    Segment("proximal", (-0.0122, 0.0381, 0.0145), (0.500003, -0.5, -0.499997, 0.5), "rotational", "X"),
    Segment(
        *("middle", (0.015, 0.0143, -0.013), (0.500003, 0.5, -0.5, 0.499997)),
        *("proximal_interphalangeal", "Z"),
    ),
    Segment("distal", (0, -0.0361, 0.0002), (1, 0, 0, 0), "distal_interphalangeal", "Z", mass=0.03125),
)


def _exact(segment: Segment) -> Segment:
    x, y, z = (round(v * 2**20) / 2**20 for v in segment.pos)
    w, i, j, k = (round(2 * v) / 2 for v in segment.quat)
    return replace(segment, pos=(x, y, z), quat=(w, i, j, k))


EXACT = tuple(_exact(s) for s in PROPOSAL)


# -- MJCF -------------------------------------------------------------------------------------------------------------


def mjcf(segments: Sequence[Segment], *, floating: bool = False) -> str:
    body = ""
    for segment in reversed(segments):
        axis = {"X": "1 0 0", "Y": "0 1 0", "Z": "0 0 1"}[segment.axis]
        low, high = segment.limits
        joint = f'<joint name="{segment.joint}" axis="{axis}" range="{low} {high}"/>' if segment.joint else ""
        if floating and segment is segments[0]:
            joint = '<freejoint name="floating"/>'
        inertial = (
            f'<inertial pos="{_numbers(segment.center)}" mass="{segment.mass}"'
            f' diaginertia="{_numbers(segment.inertia)}"/>'
        )
        place = f'pos="{_numbers(segment.pos)}" quat="{_numbers(segment.quat)}"'
        body = f'<body name="{segment.name}" {place}>{joint}{inertial}{body}</body>'
    return f'<mujoco model="finger"><worldbody>{body}</worldbody></mujoco>'


def _numbers(values: Sequence[float]) -> str:
    return " ".join(repr(float(v)) for v in values)


# -- USD --------------------------------------------------------------------------------------------------------------

SCENE = prim('PhysicsScene "PhysicsScene"')


def nested(
    segments: Sequence[Segment],
    *,
    fixed: bool = True,
    reset: bool = False,
    root_on: str = "body",
    literal: bool = False,
) -> str:
    """Bodies inside bodies, each with its joint, as the proposal proposes.

    Args:
        segments: from the root to the tip.
        fixed: whether the palm is held to the world.
        reset: whether bodies are placed in the world all the same, by resetXformStack.
        root_on: what has the articulation root schema: `body`, `ancestor`, `joint` or nothing.
        literal: whether joints name their bodies as the proposal's text does.
    """
    worlds = world_poses(segments)
    inside = ""
    for number in reversed(range(len(segments))):
        segment = segments[number]
        place = placed(worlds[number].position.tolist(), worlds[number].quaternion.tolist(), reset=True)
        place = place if reset else placed(segment.pos, _unit(segment.quat))
        lines = [place, _mass(segment)]
        if number:
            # the proposal writes <../../palm> and <../index_finger_base>, but `..` of a joint is the prim around it
            ends = (f"<../../{segments[number - 1].name}>", f"<../{segment.name}>") if literal else ("<../..>", "<..>")
            lines.append(_joint(segment, *ends))
        elif fixed:
            lines.append(_to_world(segment, "<..>", root_on))
        schemas = [BODY, MASS, ROOT] if number == 0 and root_on == "body" else [BODY, MASS]
        inside = prim(f'Xform "{segment.name}"', *lines, inside, apis=schemas)
    return prim('Xform "World"', SCENE, inside, apis=[ROOT] if root_on == "ancestor" else [])


def flat(segments: Sequence[Segment], *, fixed: bool = True, root_on: str = "body") -> str:
    """Bodies beside each other in the world, as UsdPhysics asked for before."""
    bodies, joints = [], []
    for number, (segment, world) in enumerate(zip(segments, world_poses(segments), strict=True)):
        schemas = [BODY, MASS, ROOT] if number == 0 and root_on == "body" else [BODY, MASS]
        place = placed(world.position.tolist(), world.quaternion.tolist())
        bodies.append(prim(f'Xform "{segment.name}"', place, _mass(segment), apis=schemas))
        if number:
            ends = (f"</World/PhysicsBodies/{s.name}>" for s in segments[number - 1 : number + 1])
            joints.append(_joint(segment, *ends))
        elif fixed:
            joints.append(_to_world(segment, f"</World/PhysicsBodies/{segment.name}>", root_on))
    scopes = prim('Scope "PhysicsBodies"', *bodies), prim('Scope "PhysicsJoints"', *joints)
    return prim('Xform "World"', SCENE, *scopes, apis=[ROOT] if root_on == "ancestor" else [])


def world_poses(segments: Sequence[Segment]) -> list[Pose]:
    poses = [segments[0].pose]
    for segment in segments[1:]:
        poses.append(poses[-1] @ segment.pose)
    return poses


def _mass(segment: Segment) -> str:
    values = {
        "float physics:mass": repr(segment.mass),
        "point3f physics:centerOfMass": _tuple(segment.center),
        "float3 physics:diagonalInertia": _tuple(segment.inertia),
        "quatf physics:principalAxes": "(1, 0, 0, 0)",
    }
    return "\n".join(f"{name} = {value}" for name, value in values.items())


def _joint(segment: Segment, body0: str, body1: str) -> str:
    low, high = segment.limits
    return prim(
        f'PhysicsRevoluteJoint "{segment.joint}"',
        f"rel physics:body0 = {body0}",
        f"rel physics:body1 = {body1}",
        f'uniform token physics:axis = "{segment.axis}"',
        f"float physics:lowerLimit = {low}",
        f"float physics:upperLimit = {high}",
        f"point3f physics:localPos0 = {_tuple(segment.pos)}",
        f"quatf physics:localRot0 = {_tuple(_unit(segment.quat))}",
    )


def _to_world(segment: Segment, body1: str, root_on: str) -> str:
    return prim(
        'PhysicsFixedJoint "to_world"',
        f"rel physics:body1 = {body1}",
        f"point3f physics:localPos0 = {_tuple(segment.pos)}",
        f"quatf physics:localRot0 = {_tuple(_unit(segment.quat))}",
        apis=[ROOT] if root_on == "joint" else [],
    )


def _unit(quaternion: Quaternion) -> Quaternion:
    w, x, y, z = np.array(quaternion) / np.linalg.norm(quaternion)
    return float(w), float(x), float(y), float(z)


def _tuple(values: Sequence[float]) -> str:
    return "(" + ", ".join(repr(float(v)) for v in values) + ")"
