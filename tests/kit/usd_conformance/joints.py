"""Joints, their limits and their drives."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kinema.core import Pose

from ..usd_stages import OTHER, SI, prim
from .bodies import ball, translate
from .case import Case, Description, Sample

INF = math.inf
DEGREE = math.pi / 180
SIX = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")

# -- all joints -------------------------------------------------------------------------------------------------------

BODIES = "\n".join(ball(name, x).replace(f"HERE_{name}", "") for name, x in (("anchor", 0), ("body", 3)))
BODY0, BODY1 = "rel physics:body0 = </anchor>", "rel physics:body1 = </body>"
CYCLIC = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
"""The rotation (0.5, 0.5, 0.5, 0.5): x to y, y to z, z to x."""


def joint(kind: str, *lines: str, apis: tuple[str, ...] = ()) -> str:
    """Two balls, 3 apart along x, and a joint from `anchor` to `body` at the latter's origin."""
    where = "point3f physics:localPos0 = (3, 0, 0)"
    return "\n".join([BODIES, prim(f'{kind} "joint"', BODY0, BODY1, where, *lines, apis=apis)])


FREE = "\n".join([BODIES, prim('PhysicsJoint "joint"', "HERE", BODY0, BODY1)])
"""A joint whose frames may be anywhere: all six axes are free."""


def ends(d: Description) -> tuple[str | None, str | None]:
    return d.joint().parent, d.joint().child


def flag(name: str, field: str, *, default: bool, kind: str = "bool", more: dict[str, Sample] | None = None) -> Case:
    text = f"{kind} physics:{name} = {str(not default).lower()}"
    return Case(
        "PhysicsJoint",
        f"physics:{name}",
        meaning=f"`Joint.{field}`",
        stage=FREE,
        read=lambda d: getattr(d.joint(), field),
        authored=Sample(text, not default),
        fallback=Sample("", default),
        other_units=Sample(text, not default),
        more=more or {},
    )


SCALED = 'double3 xformOp:scale = (2, 1, 1)\nuniform token[] xformOpOrder = ["xformOp:scale"]'
COLLIDER_HEAD = '_shape" (\n    prepend apiSchemas = ["PhysicsCollisionAPI"]\n)\n{'


def place(number: int, side: str) -> list[Case]:
    """Position and rotation of the frame on one of the bodies."""

    def pose(d: Description) -> Pose:
        return getattr(d.joint(), f"{side}_pose")

    name = ("anchor", "body")[number]
    position, rotation = f"point3f physics:localPos{number} = ", f"quatf physics:localRot{number} = "
    scaled = FREE.replace(translate((0, 3)[number], 0, 0), SCALED)
    raised = FREE.replace(f"{name}{COLLIDER_HEAD}", f"{name}{COLLIDER_HEAD}\n{translate(0, 0, 1)}")
    on_collider = raised.replace(f"body{number} = </{name}>", f"body{number} = </{name}/{name}_shape>")
    assert FREE not in (scaled, raised, on_collider)
    return [
        Case(
            "PhysicsJoint",
            f"physics:localPos{number}",
            meaning=f"`Joint.{side}_pose.position` [m]",
            stage=FREE,
            read=lambda d: tuple(pose(d).position),
            authored=Sample(position + "(1, 2, 3)", (1.0, 2.0, 3.0)),
            fallback=Sample("", (0.0, 0.0, 0.0)),
            other_units=Sample(position + "(1, 2, 3)", (0.01, 0.02, 0.03), "cm"),
            more={
                "on a scaled body": Sample(position + "(1, 2, 3)", (2.0, 2.0, 3.0), "twice as long in x", stage=scaled),
                "on a prim inside the body": Sample(
                    position + "(1, 2, 3)", (1.0, 2.0, 4.0), "the collider is at (0, 0, 1)", stage=on_collider
                ),
            },
        ),
        Case(
            "PhysicsJoint",
            f"physics:localRot{number}",
            meaning=f"`Joint.{side}_pose.rotation`",
            stage=FREE,
            read=lambda d: pose(d).rotation,
            authored=Sample(rotation + "(0.5, 0.5, 0.5, 0.5)", CYCLIC),
            fallback=Sample("", np.eye(3)),
            other_units=Sample(rotation + "(0.5, 0.5, 0.5, 0.5)", CYCLIC, "along the prim's own axes"),
            more={
                "not of unit length": Sample(rotation + "(2, 2, 2, 2)", CYCLIC),
                "zero": Sample(rotation + "(0, 0, 0, 0)", np.eye(3), "no turn"),
            },
        ),
    ]


def breaks(name: str, field: str, unit: str, other: float) -> Case:
    text = f"float physics:{name} = 50"
    return Case(
        "PhysicsJoint",
        f"physics:{name}",
        meaning=f"`Joint.{field}` [{unit}]",
        stage=FREE,
        read=lambda d: getattr(d.joint(), field),
        authored=Sample(text, 50.0),
        fallback=Sample("", INF),
        other_units=Sample(text, 50.0 * other),
    )


ONLY_BODY1 = "\n".join([BODIES, prim('PhysicsJoint "joint"', "HERE", BODY1)])
ONLY_BODY0 = "\n".join([BODIES, prim('PhysicsJoint "joint"', "HERE", BODY0)])

JOINTS = [
    Case(
        "PhysicsJoint",
        "physics:body0",
        meaning="`Joint.parent`; None for the world",
        stage=ONLY_BODY1,
        read=ends,
        authored=Sample(BODY0, ("anchor", "body")),
        fallback=Sample("", (None, "body"), "the world"),
        other_units=Sample(BODY0, ("anchor", "body")),
        more={
            "a collider of a body": Sample("rel physics:body0 = </anchor/anchor_shape>", ("anchor", "body")),
        },
    ),
    Case(
        "PhysicsJoint",
        "physics:body1",
        meaning="`Joint.child`; None for the world",
        stage=ONLY_BODY0,
        read=ends,
        authored=Sample(BODY1, ("anchor", "body")),
        fallback=Sample("", ("anchor", None), "the world"),
        other_units=Sample(BODY1, ("anchor", "body")),
    ),
    *place(0, "parent"),
    *place(1, "child"),
    flag("jointEnabled", "enabled", default=True),
    flag(
        "collisionEnabled",
        "collision_enabled",
        default=False,
        more={"to the world": Sample("", None, "what hangs on the world may touch it", stage=ONLY_BODY1)},
    ),
    flag("excludeFromArticulation", "closes_loop", default=False, kind="uniform bool"),
    breaks("breakForce", "break_force", "N", 1e-5),
    breaks("breakTorque", "break_torque", "N m", 1e-7),
]

# -- one axis ---------------------------------------------------------------------------------------------------------


def axis_in_world(d: Description) -> tuple[float, ...]:
    found, link = d.joint(), d.link()
    assert link.pose is not None
    return tuple((link.pose @ found.child_pose).rotation @ found.axes[0].direction)


def one_axis(kind: str, unit: str, scale: float, other: float) -> list[Case]:
    """Axis and limits of a revolute or prismatic joint."""
    schema = f"Physics{kind}Joint"
    stage = joint(schema, "HERE")

    def limit(name: str, field: str, sign: int) -> Case:
        def read(d: Description) -> tuple[str, float]:
            axis = d.joint().axes[0]
            return axis.state.value, getattr(axis, field)

        text = f"float physics:{name} = {sign * 30}"
        both = "float physics:lowerLimit = -5\nfloat physics:upperLimit = 5"
        crossed = "float physics:lowerLimit = 5\nfloat physics:upperLimit = -5"
        return Case(
            schema,
            f"physics:{name}",
            meaning=f"`Axis.{field}` [{unit}]; locked where the lower limit is above the upper one",
            stage=stage,
            read=read,
            authored=Sample(text, ("limited", sign * 30 * scale), "one side only"),
            fallback=Sample("", ("free", sign * INF)),
            other_units=Sample(text, ("limited", sign * 30 * other)),
            more={
                "both": Sample(both, ("limited", sign * 5 * scale)),
                "lower above upper locks": Sample(crossed, ("locked", sign * INF), claims=("usd.limits-lock",)),
            },
        )

    return [
        Case(
            schema,
            "physics:axis",
            meaning="`Axis.direction` in the joint's frame; here in the world",
            stage=stage,
            read=axis_in_world,
            authored=Sample('uniform token physics:axis = "Y"', (0.0, 1.0, 0.0)),
            fallback=Sample("", (1.0, 0.0, 0.0), "X"),
            other_units=Sample('uniform token physics:axis = "Y"', (0.0, 0.0, 1.0), "Y is our Z"),
            more={"Z": Sample('uniform token physics:axis = "Z"', (0.0, 0.0, 1.0))},
        ),
        limit("lowerLimit", "lower", -1),
        limit("upperLimit", "upper", +1),
    ]


def cone(d: Description) -> tuple[float, float, int] | None:
    found = d.joint().cone
    return None if found is None else (found.angle_y, found.angle_z, found.axis)


BOTH_ANGLES = "float physics:coneAngle0Limit = 30\nfloat physics:coneAngle1Limit = 60\n"
SPHERICAL_STAGE = joint("PhysicsSphericalJoint", "HERE")


def cone_angle(number: int) -> Case:
    text = f"float physics:coneAngle{number}Limit = 45"
    expected = (math.pi / 4, INF, 0) if number == 0 else (INF, math.pi / 4, 0)
    return Case(
        "PhysicsSphericalJoint",
        f"physics:coneAngle{number}Limit",
        meaning=f"`Joint.cone.angle_{'yz'[number]}` [rad], towards the {('next', 'second next')[number]} axis",
        stage=SPHERICAL_STAGE,
        read=cone,
        authored=Sample(text, expected, "the other angle is not limited"),
        fallback=Sample("", None, "no cone"),
        other_units=Sample(text, expected),
        more={
            "negative is no limit": Sample(text.replace("45", "-5"), None),
            "both": Sample(BOTH_ANGLES, (math.pi / 6, math.pi / 3, 0)),
        },
    )


def distance(name: str, number: int, default: float) -> Case:
    text = f"float physics:{name} = 3"
    return Case(
        "PhysicsDistanceJoint",
        f"physics:{name}",
        meaning=f"`Joint.distance[{number}]` [m]",
        stage=joint("PhysicsDistanceJoint", "HERE"),
        read=lambda d: d.joint().distance[number],
        authored=Sample(text, 3.0),
        fallback=Sample("", default, "not limited"),
        other_units=Sample(text, 0.03, "cm"),
        more={"negative is no limit": Sample(text.replace("3", "-3"), default)},
    )


PREDEFINED = [
    *one_axis("Revolute", "rad", DEGREE, DEGREE),
    *one_axis("Prismatic", "m", 1.0, 0.01),
    Case(
        "PhysicsSphericalJoint",
        "physics:axis",
        meaning="`Joint.cone.axis`: 0, 1, 2 for x, y, z of the joint's frame",
        stage=joint("PhysicsSphericalJoint", BOTH_ANGLES + "HERE"),
        read=cone,
        authored=Sample('uniform token physics:axis = "Z"', (math.pi / 6, math.pi / 3, 2)),
        fallback=Sample("", (math.pi / 6, math.pi / 3, 0), "X"),
        other_units=Sample('uniform token physics:axis = "Z"', (math.pi / 6, math.pi / 3, 2)),
    ),
    cone_angle(0),
    cone_angle(1),
    distance("minDistance", 0, 0.0),
    distance("maxDistance", 1, INF),
]

# -- limits of the general joint --------------------------------------------------------------------------------------

ALL_LIMITS = tuple(f"PhysicsLimitAPI:{token}" for token in (*SIX, "distance"))
LIMITED = joint("PhysicsJoint", "HERE", apis=ALL_LIMITS)
NO_LIMITS: dict[str, object] = {**dict.fromkeys(SIX, ("free", -INF, INF)), "distance": ("free", 0.0, INF)}


def ranges(d: Description) -> dict[str, object]:
    """Token -> state, lower and upper limit."""
    found = d.joint()
    result: dict[str, object] = {
        token: (axis.state.value, axis.lower, axis.upper) for token, axis in zip(SIX, found.axes, strict=True)
    }
    low, high = found.distance
    state = "locked" if high == 0 else "free" if (low, high) == (0, INF) else "limited"
    return {**result, "distance": (state, low, high)}


def limited(token: str, low: float | None, high: float | None, expected: tuple[str, float, float], **more) -> Sample:
    text = ""
    if low is not None:
        text += f"float limit:{token}:physics:low = {low}\n"
    if high is not None:
        text += f"float limit:{token}:physics:high = {high}\n"
    return Sample(text, {**NO_LIMITS, token: expected}, **more)


def unit(token: str, length: float = 1.0) -> float:
    return DEGREE if token.startswith("rot") else length


EVERY_LOW = {
    f"{t}, one-sided": limited(t, -20, None, ("limited", -20 * unit(t), INF)) for t in SIX if t != "transX"
} | {
    "distance": limited("distance", 2, None, ("limited", 2.0, INF)),
    "distance, in centimetres": limited("distance", 2, None, ("limited", 0.02, INF), units=OTHER),
    "rotZ, in other units": limited("rotZ", -20, None, ("limited", -20 * DEGREE, INF), units=OTHER),
    **{f"{t}, low above high locks": limited(t, 1, -1, ("locked", -INF, INF)) for t in SIX},
    "distance, low above high locks": limited("distance", 1, -1, ("locked", 0.0, 0.0)),
    "without the schema": Sample("", NO_LIMITS, "free", stage=joint("PhysicsJoint", "HERE")),
    "on a revolute joint": Sample(
        "",
        ("free",),
        "has its own limits",
        stage=joint("PhysicsRevoluteJoint", apis=("PhysicsLimitAPI:rotX",)),
        claims=("usd.no-such-axis",),
    ),
}
EVERY_HIGH = {
    f"{t}, one-sided": limited(t, None, 20, ("limited", -INF, 20 * unit(t))) for t in SIX if t != "transX"
} | {
    "distance": limited("distance", None, 2, ("limited", 0.0, 2.0)),
    "both": limited("transX", -1, 2, ("limited", -1.0, 2.0)),
}


def ranges_or_states(d: Description) -> object:
    return ranges(d) if d.joint().kind.value == "six_axis" else tuple(a.state.value for a in d.joint().axes)


LIMITS = [
    Case(
        "PhysicsLimitAPI",
        "physics:low",
        meaning="`Axis.lower` [m or rad], `Joint.distance[0]` [m]; locked where it is above `physics:high`",
        stage=LIMITED,
        read=ranges_or_states,
        authored=limited("transX", -20, None, ("limited", -20.0, INF)),
        fallback=Sample("", NO_LIMITS),
        other_units=limited("transX", -20, None, ("limited", -0.2, INF)),
        more=EVERY_LOW,
    ),
    Case(
        "PhysicsLimitAPI",
        "physics:high",
        meaning="`Axis.upper` [m or rad], `Joint.distance[1]` [m]",
        stage=LIMITED,
        read=ranges,
        authored=limited("transX", None, 20, ("limited", -INF, 20.0)),
        fallback=Sample("", NO_LIMITS),
        other_units=limited("transX", None, 20, ("limited", -INF, 0.2)),
        more=EVERY_HIGH,
    ),
]

# -- drives -----------------------------------------------------------------------------------------------------------

DRIVEN = {
    **{t: joint("PhysicsJoint", "HERE", apis=tuple(f"PhysicsDriveAPI:{x}" for x in SIX)) for t in SIX},
    "linear": joint("PhysicsPrismaticJoint", "HERE", apis=("PhysicsDriveAPI:linear",)),
    "angular": joint("PhysicsRevoluteJoint", "HERE", apis=("PhysicsDriveAPI:angular",)),
}
"""Every instance name a drive may have -> a stage with it."""
OTHER_JOINTS = {
    "rotZ": joint("PhysicsSphericalJoint", "HERE", apis=("PhysicsDriveAPI:rotZ",)),
    "rotX": joint("PhysicsRevoluteJoint", "HERE", apis=("PhysicsDriveAPI:rotX",)),
    "transX": joint("PhysicsPrismaticJoint", "HERE", apis=("PhysicsDriveAPI:transX",)),
}
"""Axes of predefined joints by their names on the general one."""


def of_drive(field: str) -> Callable[[Description], object]:
    """The field of the drive whose axis has a drive that is not as the schema leaves it; else the first's."""

    def read(d: Description) -> object:
        values = [getattr(a.drive, field) for a in d.joint().axes if a.drive is not None]
        if len(values) == 6:
            return tuple(getattr(v, "value", v) for v in values)
        return getattr(values[0], "value", values[0])

    return read


def turns(token: str) -> bool:
    return token.startswith("rot") or token == "angular"


def on_axis(token: str, value: object, default: object) -> object:
    """What the drives hold: one value on a joint with one axis; on the general joint all but one are at the default."""
    return tuple(value if t == token else default for t in SIX) if token in SIX else value


def drive_case(name: str, field: str, meaning: str, text: str, values: dict[str, object], default: object) -> Case:
    """A property of a drive.

    Args:
        name: of the property.
        field: of `Drive`.
        meaning: for the table.
        text: USD's type and value, `type NAME = value`.
        values: `angular`, `linear`, and both `in other units` -> what is expected.
        default: what the schema leaves.
    """

    def sample(token: str, *, other: bool = False, stage: str = "") -> Sample:
        value = values[("angular" if turns(token) else "linear") + (" in other units" if other else "")]
        line = text.replace("NAME", f"drive:{token}:physics:{name}")
        expected = value if stage else on_axis(token, value, default)
        return Sample(line, expected, stage=stage or DRIVEN[token], units=OTHER if other else SI)

    return Case(
        "PhysicsDriveAPI",
        f"physics:{name}",
        meaning=meaning,
        stage=DRIVEN["angular"],
        read=of_drive(field),
        authored=sample("angular"),
        fallback=Sample("", default),
        other_units=sample("angular", other=True),
        more={
            **{t: sample(t) for t in DRIVEN if t != "angular"},
            **{f"{t}, in other units": sample(t, other=True) for t in ("linear", "transX", "rotX")},
            **{f"{t} of a predefined joint": sample(t, stage=stage) for t, stage in OTHER_JOINTS.items()},
        },
    )


PER_DEGREE = 1 / DEGREE

DRIVES = [
    drive_case(
        "type",
        "type",
        "`Axis.drive.type`",
        'uniform token NAME = "acceleration"',
        dict.fromkeys(("angular", "linear", "angular in other units", "linear in other units"), "acceleration"),
        "force",
    ),
    drive_case(
        "maxForce",
        "max_force",
        "`Axis.drive.max_force` [N or N m]",
        "float NAME = 50",
        {"angular": 50.0, "linear": 50.0, "angular in other units": 50e-7, "linear in other units": 50e-5},
        INF,
    ),
    drive_case(
        "targetPosition",
        "target_position",
        "`Axis.drive.target_position` [m or rad]",
        "float NAME = 30",
        {
            "angular": math.pi / 6,
            "linear": 30.0,
            "angular in other units": math.pi / 6,
            "linear in other units": 0.3,
        },
        0.0,
    ),
    drive_case(
        "targetVelocity",
        "target_velocity",
        "`Axis.drive.target_velocity` [m/s or rad/s]",
        "float NAME = 30",
        {
            "angular": math.pi / 6,
            "linear": 30.0,
            "angular in other units": math.pi / 6,
            "linear in other units": 0.3,
        },
        0.0,
    ),
    drive_case(
        "damping",
        "damping",
        "`Axis.drive.damping` [N s/m or N m s/rad]",
        "float NAME = 2",
        {
            "angular": 2 * PER_DEGREE,
            "linear": 2.0,
            "angular in other units": 2e-7 * PER_DEGREE,
            "linear in other units": 2e-3,
        },
        0.0,
    ),
    drive_case(
        "stiffness",
        "stiffness",
        "`Axis.drive.stiffness` [N/m or N m/rad]",
        "float NAME = 2",
        {
            "angular": 2 * PER_DEGREE,
            "linear": 2.0,
            "angular in other units": 2e-7 * PER_DEGREE,
            "linear in other units": 2e-3,
        },
        0.0,
    ),
]

CASES = [*JOINTS, *PREDEFINED, *LIMITS, *DRIVES]
