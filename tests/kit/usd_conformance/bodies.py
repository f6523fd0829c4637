"""Scenes, rigid bodies and masses."""

from __future__ import annotations

import math

from ..usd_stages import OTHER, prim
from .case import Case, Description, Sample

# -- scenes -----------------------------------------------------------------------------------------------------------

SCENE = prim('PhysicsScene "scene"', "HERE")
DOWN = (0.0, 0.0, -9.81)

SCENES = [
    Case(
        "PhysicsScene",
        "physics:gravityDirection",
        meaning="direction of `gravity`, Z up",
        stage=SCENE,
        read=lambda d: d.described.gravity,
        authored=Sample("vector3f physics:gravityDirection = (0, 3, 4)", (0.0, 9.81 * 0.6, 9.81 * 0.8), "normalised"),
        fallback=Sample("", DOWN, "the negative up axis"),
        other_units=Sample(
            "vector3f physics:gravityDirection = (0, 3, 4)", (0.0, -9.81 * 0.8, 9.81 * 0.6), "turned to Z up"
        ),
        more={
            "zero means down": Sample("vector3f physics:gravityDirection = (0, 0, 0)", DOWN),
            "fallback, Y up": Sample("", DOWN, units=OTHER),
        },
    ),
    Case(
        "PhysicsScene",
        "physics:gravityMagnitude",
        meaning="length of `gravity` [m/s2]",
        stage=SCENE,
        read=lambda d: d.described.gravity,
        authored=Sample("float physics:gravityMagnitude = 5", (0.0, 0.0, -5.0)),
        fallback=Sample("", DOWN, "that of the Earth"),
        other_units=Sample("float physics:gravityMagnitude = 500", (0.0, 0.0, -5.0), "cm/s2"),
        more={
            "negative means the Earth's": Sample("float physics:gravityMagnitude = -3", DOWN),
            "negative, in centimetres": Sample("float physics:gravityMagnitude = -3", DOWN, units=OTHER),
            "zero is zero": Sample("float physics:gravityMagnitude = 0", (0.0, 0.0, 0.0)),
        },
    ),
]

# -- rigid bodies -----------------------------------------------------------------------------------------------------

CUBE = prim('Cube "collider"', "double size = 2", apis=["PhysicsCollisionAPI"])
"""8 m3, or 8 cm3: 8000 kg, or 8 g, at the default density."""
CUBE_INERTIA = 8000 * (2**2 + 2**2) / 12


def body(*lines: str, name: str = "body") -> str:
    return prim(f'Xform "{name}"', *lines, apis=["PhysicsRigidBodyAPI", "PhysicsMassAPI"])


def ball(name: str, x: float) -> str:
    """A body `name` with the collider `name_shape`."""
    shape = prim(f'Sphere "{name}_shape"', apis=["PhysicsCollisionAPI"])
    return prim(f'Xform "{name}"', translate(x, 0, 0), "HERE_" + name, shape, apis=["PhysicsRigidBodyAPI"])


def translate(x: float, y: float, z: float) -> str:
    return f'double3 xformOp:translate = ({x}, {y}, {z})\nuniform token[] xformOpOrder = ["xformOp:translate"]'


NESTED = body(body("HERE", CUBE, name="inner"), prim('Sphere "ball"', apis=["PhysicsCollisionAPI"]), name="outer")
TURNED = prim(
    'Xform "above"',
    "float xformOp:rotateZ = 90",
    "double3 xformOp:scale = (2, 2, 2)",
    'uniform token[] xformOpOrder = ["xformOp:rotateZ", "xformOp:scale"]',
    body("HERE", CUBE),
)
TWO_SCENES = "\n".join(
    [
        prim('PhysicsScene "first"'),
        prim('PhysicsScene "half"', "float physics:gravityMagnitude = HALF"),
        ball("other", 5).replace("HERE_other", ""),
        ball("body", 0).replace("HERE_body", "HERE"),
    ]
)


def simulated_by(d: Description) -> dict[str, object]:
    gravity, link = d.described.gravity, d.link()
    assert gravity is not None
    return {
        "owner": link.attributes.get("usd:simulationOwner"),
        "gravity": link.gravity_scale * float(gravity[2]),
        "touches": d.touching(),
    }


BODIES = [
    Case(
        "PhysicsRigidBodyAPI",
        "physics:rigidBodyEnabled",
        meaning="a `Link` of its own; where false, shapes go to the closest enabled body above",
        stage=NESTED,
        read=lambda d: {link.name: {s.name for s in link.shapes} for link in d.described.links},
        authored=Sample("bool physics:rigidBodyEnabled = false", {"outer": {"ball", "collider"}}),
        fallback=Sample("", {"outer": {"ball"}, "inner": {"collider"}}),
        other_units=Sample("bool physics:rigidBodyEnabled = false", {"outer": {"ball", "collider"}}),
    ),
    Case(
        "PhysicsRigidBodyAPI",
        "physics:kinematicEnabled",
        meaning="`Link.kinematic`",
        stage=body("HERE", CUBE),
        read=lambda d: d.link().kinematic,
        authored=Sample("bool physics:kinematicEnabled = true", True),
        fallback=Sample("", False),
        other_units=Sample("bool physics:kinematicEnabled = true", True),
    ),
    Case(
        "PhysicsRigidBodyAPI",
        "physics:simulationOwner",
        meaning="`Link.attributes['usd:simulationOwner']`, `Link.gravity_scale`; scenes never touch each other",
        stage=TWO_SCENES.replace("HALF", "4.905"),
        read=simulated_by,
        authored=Sample(
            "rel physics:simulationOwner = </half>", {"owner": "/half", "gravity": -4.905, "touches": set()}
        ),
        fallback=Sample("", {"owner": None, "gravity": -9.81, "touches": {"body-other"}}),
        other_units=Sample(
            "rel physics:simulationOwner = </half>",
            {"owner": "/half", "gravity": -4.905, "touches": set()},
            stage=TWO_SCENES.replace("HALF", "490.5"),
        ),
        more={
            "no scene": Sample(
                "rel physics:simulationOwner = </other>",
                {"owner": "/other", "gravity": -9.81, "touches": {"body-other"}},
                claims=("usd.simulation-owner",),
            ),
        },
    ),
    Case(
        "PhysicsRigidBodyAPI",
        "physics:startsAsleep",
        meaning="`Link.starts_asleep`",
        stage=body("HERE", CUBE),
        read=lambda d: d.link().starts_asleep,
        authored=Sample("uniform bool physics:startsAsleep = true", True),
        fallback=Sample("", False),
        other_units=Sample("uniform bool physics:startsAsleep = true", True),
    ),
    Case(
        "PhysicsRigidBodyAPI",
        "physics:velocity",
        meaning="`Link.linear_velocity` [m/s], in the world",
        stage=TURNED,
        read=lambda d: d.link().linear_velocity,
        authored=Sample(
            "vector3f physics:velocity = (3, 0, 0)", (0.0, 6.0, 0.0), "in the parent's space: turned, and twice as fast"
        ),
        fallback=Sample("", (0.0, 0.0, 0.0)),
        other_units=Sample("vector3f physics:velocity = (300, 0, 0)", (0.0, 0.0, 6.0), "cm/s along Y, which is our Z"),
        more={
            "without a parent": Sample(
                "vector3f physics:velocity = (3, 0, 0)", (3.0, 0.0, 0.0), stage=body("HERE", CUBE)
            ),
            "after resetXformStack": Sample(
                'uniform token[] xformOpOrder = ["!resetXformStack!"]\nvector3f physics:velocity = (3, 0, 0)',
                (3.0, 0.0, 0.0),
            ),
        },
    ),
    Case(
        "PhysicsRigidBodyAPI",
        "physics:angularVelocity",
        meaning="`Link.angular_velocity` [rad/s], in the world",
        stage=TURNED,
        read=lambda d: d.link().angular_velocity,
        authored=Sample(
            "vector3f physics:angularVelocity = (180, 0, 0)", (0.0, math.pi, 0.0), "degrees; turned, not scaled"
        ),
        fallback=Sample("", (0.0, 0.0, 0.0)),
        other_units=Sample("vector3f physics:angularVelocity = (180, 0, 0)", (0.0, 0.0, math.pi), "Y is our Z"),
    ),
]

# -- masses -----------------------------------------------------------------------------------------------------------


def mass(d: Description) -> float:
    inertial = d.link().inertial
    assert inertial is not None
    return inertial.mass


def center(d: Description) -> tuple[float, ...]:
    inertial = d.link().inertial
    assert inertial is not None
    return tuple(inertial.center)


def inertia(d: Description) -> tuple[float, ...]:
    """xx, yy, zz, xy, xz, yz in the link's frame."""
    inertial = d.link().inertial
    assert inertial is not None
    i = inertial.inertia
    return (i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2])


def diagonal(xx: float, yy: float, zz: float) -> tuple[float, ...]:
    return (xx, yy, zz, 0.0, 0.0, 0.0)


ON_COLLIDER = prim(
    'Xform "body"',
    prim('Cube "collider"', "double size = 2", "HERE", apis=["PhysicsCollisionAPI", "PhysicsMassAPI"]),
    apis=["PhysicsRigidBodyAPI"],
)
BOTH = body(
    "float physics:BODY = 5",
    prim('Cube "collider"', "double size = 2", "HERE", apis=["PhysicsCollisionAPI", "PhysicsMassAPI"]),
)
MOVED_COLLIDER = prim(
    'Xform "body"',
    prim(
        'Cube "collider"',
        "double size = 2",
        translate(1, 0, 0),
        "HERE",
        apis=["PhysicsCollisionAPI", "PhysicsMassAPI"],
    ),
    apis=["PhysicsRigidBodyAPI"],
)
CYCLIC = "quatf physics:principalAxes = (0.5, 0.5, 0.5, 0.5)"
"""Takes x to y, y to z and z to x."""

MASSES = [
    Case(
        "PhysicsMassAPI",
        "physics:mass",
        meaning="`Link.inertial.mass`, `Shape.mass` [kg]",
        stage=body("HERE", CUBE),
        read=mass,
        authored=Sample("float physics:mass = 3", 3.0),
        fallback=Sample("", 8000.0, "8 m3 at 1000 kg/m3"),
        other_units=Sample("float physics:mass = 3", 0.003, "grams"),
        more={
            "zero means unset": Sample("float physics:mass = 0", 8000.0),
            "fallback, in grams": Sample("", 0.008, "8 cm3 at 1000 kg/m3", units=OTHER),
            "on a collider": Sample("float physics:mass = 3", 3.0, stage=ON_COLLIDER),
            "the body's overrides a collider's": Sample(
                "float physics:mass = 3", 5.0, stage=BOTH.replace("BODY", "mass")
            ),
            "overrides density": Sample("float physics:mass = 3\nfloat physics:density = 7", 3.0),
            "negative is wrong": Sample("float physics:mass = -3", 8000.0, claims=("usd.bad-mass",)),
        },
    ),
    Case(
        "PhysicsMassAPI",
        "physics:density",
        meaning="`Link.density`, `Shape.density` [kg/m3]; `Link.inertial` is computed with it",
        stage=body("HERE", CUBE),
        read=lambda d: (mass(d), d.link().density or 0.0),
        authored=Sample("float physics:density = 7", (56.0, 7.0), "8 m3 at 7 kg/m3"),
        fallback=Sample("", (8000.0, 0.0), "1000 kg/m3"),
        other_units=Sample("float physics:density = 7", (0.056, 7000.0), "8 cm3 at 7 g/cm3"),
        more={
            "zero means unset": Sample("float physics:density = 0", (8000.0, 0.0)),
            "on a collider": Sample("float physics:density = 7", (56.0, 0.0), stage=ON_COLLIDER),
            "a collider's overrides the body's": Sample(
                "float physics:density = 7", (56.0, 5.0), stage=BOTH.replace("BODY", "density")
            ),
        },
    ),
    Case(
        "PhysicsMassAPI",
        "physics:centerOfMass",
        meaning="`Link.inertial.center` [m], in the link's frame",
        stage=body("float physics:mass = 2", "float3 physics:diagonalInertia = (1, 1, 1)", "HERE", CUBE),
        read=center,
        authored=Sample("point3f physics:centerOfMass = (1, 2, 3)", (1.0, 2.0, 3.0)),
        fallback=Sample("", (0.0, 0.0, 0.0), "the cube's"),
        other_units=Sample("point3f physics:centerOfMass = (1, 2, 3)", (0.01, 0.02, 0.03), "cm, along the prim's axes"),
        more={
            "scaled with its body": Sample(
                "point3f physics:centerOfMass = (1, 2, 3)\n"
                'double3 xformOp:scale = (2, 1, 1)\nuniform token[] xformOpOrder = ["xformOp:scale"]',
                (2.0, 2.0, 3.0),
            ),
            "the origin is a place like any other": Sample("point3f physics:centerOfMass = (0, 0, 0)", (0.0, 0.0, 0.0)),
            "on a collider": Sample(
                "point3f physics:centerOfMass = (1, 2, 3)",
                (2.0, 2.0, 3.0),
                "from the collider, which is at (1, 0, 0)",
                stage=MOVED_COLLIDER,
            ),
        },
    ),
    Case(
        "PhysicsMassAPI",
        "physics:diagonalInertia",
        meaning="`Link.inertial.inertia` [kg m2], about the centre of mass, along the link's axes",
        stage=body("HERE", CUBE),
        read=inertia,
        authored=Sample("float3 physics:diagonalInertia = (1, 2, 3)", diagonal(1, 2, 3)),
        fallback=Sample("", diagonal(CUBE_INERTIA, CUBE_INERTIA, CUBE_INERTIA), "m (a2 + b2) / 12 of the cube"),
        other_units=Sample("float3 physics:diagonalInertia = (1, 2, 3)", diagonal(1e-7, 2e-7, 3e-7), "g cm2"),
        more={
            "zero means unset": Sample(
                "float3 physics:diagonalInertia = (0, 0, 0)", diagonal(CUBE_INERTIA, CUBE_INERTIA, CUBE_INERTIA)
            ),
            "scaled to the authored mass": Sample(
                "float physics:mass = 12", diagonal(8.0, 8.0, 8.0), "12 (4 + 4) / 12"
            ),
            "moved to the authored centre": Sample(
                "float physics:mass = 12\npoint3f physics:centerOfMass = (1, 0, 0)",
                diagonal(8.0, 20.0, 20.0),
                "12 kg 1 m off in x",
            ),
            "on a collider": Sample("float3 physics:diagonalInertia = (1, 2, 3)", diagonal(1, 2, 3), stage=ON_COLLIDER),
        },
    ),
    Case(
        "PhysicsMassAPI",
        "physics:principalAxes",
        meaning="axes of `physics:diagonalInertia` in `Link.inertial.inertia`",
        stage=body("float3 physics:diagonalInertia = (1, 2, 3)", "HERE", CUBE),
        read=inertia,
        authored=Sample(CYCLIC, diagonal(3, 1, 2), "x to y, y to z, z to x"),
        fallback=Sample("", diagonal(1, 2, 3), "the prim's own axes"),
        other_units=Sample(CYCLIC, diagonal(3e-7, 1e-7, 2e-7)),
        more={
            "zero means unset": Sample("quatf physics:principalAxes = (0, 0, 0, 0)", diagonal(1, 2, 3)),
            "on a collider": Sample(
                f"float3 physics:diagonalInertia = (1, 2, 3)\n{CYCLIC}", diagonal(3, 1, 2), stage=ON_COLLIDER
            ),
            "say nothing without an inertia": Sample(
                CYCLIC,
                diagonal(CUBE_INERTIA, CUBE_INERTIA, CUBE_INERTIA),
                stage=body("HERE", CUBE),
                claims=("usd.axes-without-inertia",),
            ),
        },
    ),
]

CASES = [*SCENES, *BODIES, *MASSES]
