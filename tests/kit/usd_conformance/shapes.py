"""Colliders, their materials, and what collides with what."""

from __future__ import annotations

from ..usd_stages import prim
from .bodies import ball, body
from .case import Case, Description, Sample

# -- colliders --------------------------------------------------------------------------------------------------------

STATIC_COLLIDER = "\n".join(
    [
        prim('PhysicsScene "first"'),
        prim('PhysicsScene "second"'),
        prim('Cube "collider"', "HERE", apis=["PhysicsCollisionAPI"]),
        ball("body", 5).replace("HERE_body", ""),
    ]
)
OWNED_COLLIDER = "\n".join(
    [
        prim('PhysicsScene "first"'),
        prim('PhysicsScene "second"'),
        body(prim('Cube "collider"', "HERE", apis=["PhysicsCollisionAPI"])),
        ball("other", 5).replace("HERE_other", ""),
    ]
)
TETRAHEDRON = prim(
    'Mesh "collider"',
    "int[] faceVertexCounts = [3, 3, 3, 3]",
    "int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3]",
    "point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]",
    "HERE",
    apis=["PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"],
)
APPROXIMATIONS = ("convexDecomposition", "boundingSphere", "boundingCube", "meshSimplification", "none")


def owner(d: Description) -> dict[str, object]:
    return {"owner": d.shape().attributes.get("usd:simulationOwner"), "touches": d.touching()}


def approximation(d: Description) -> str | None:
    wanted = getattr(d.shape().geometry, "approximation", None)
    return None if wanted is None else wanted.value


def wanted(token: str, **settings) -> Sample:
    return Sample(f'uniform token physics:approximation = "{token}"', token, **settings)


COLLIDERS = [
    Case(
        "PhysicsCollisionAPI",
        "physics:collisionEnabled",
        meaning="`Shape.enabled`",
        stage=body("float physics:mass = 1", prim('Cube "collider"', "HERE", apis=["PhysicsCollisionAPI"])),
        read=lambda d: d.shape().enabled,
        authored=Sample("bool physics:collisionEnabled = false", False, claims=("usd.no-inertia",)),
        fallback=Sample("", True),
        other_units=Sample("bool physics:collisionEnabled = false", False, claims=("usd.no-inertia",)),
    ),
    Case(
        "PhysicsCollisionAPI",
        "physics:simulationOwner",
        meaning="`Shape.attributes['usd:simulationOwner']`; scenes never touch each other",
        stage=STATIC_COLLIDER,
        read=owner,
        authored=Sample("rel physics:simulationOwner = </second>", {"owner": "/second", "touches": set()}),
        fallback=Sample("", {"owner": None, "touches": {"body-collider"}}, "the first scene's"),
        other_units=Sample("rel physics:simulationOwner = </second>", {"owner": "/second", "touches": set()}),
        more={
            "a body's own goes before it": Sample(
                "rel physics:simulationOwner = </second>",
                {"owner": "/second", "touches": {"collider-other"}},
                stage=OWNED_COLLIDER,
                claims=("usd.simulation-owner",),
            ),
            "no scene": Sample(
                "rel physics:simulationOwner = </body>",
                {"owner": "/body", "touches": {"body-collider"}},
                claims=("usd.simulation-owner",),
            ),
        },
    ),
    Case(
        "PhysicsMeshCollisionAPI",
        "physics:approximation",
        meaning="`Mesh.approximation`",
        stage=body(TETRAHEDRON),
        read=approximation,
        authored=wanted("convexHull"),
        fallback=Sample("", "none"),
        other_units=wanted("convexHull"),
        more={
            **{token: wanted(token) for token in APPROXIMATIONS},
            "unknown": Sample(
                'uniform token physics:approximation = "magic"', "none", claims=("usd.unknown-approximation",)
            ),
        },
    ),
]

# -- materials --------------------------------------------------------------------------------------------------------

MATERIAL = prim('Material "rubber"', "HERE", apis=["PhysicsMaterialAPI"])
BIND = "rel material:binding:physics = </rubber>"
CUBE_LINES = ('Cube "collider"', "double size = 2")
DIRECT = "\n".join([MATERIAL, body(prim(*CUBE_LINES, BIND, apis=["PhysicsCollisionAPI", "MaterialBindingAPI"]))])
INHERITED = "\n".join(
    [
        MATERIAL,
        prim(
            'Xform "body"',
            BIND,
            prim(*CUBE_LINES, apis=["PhysicsCollisionAPI"]),
            apis=["PhysicsRigidBodyAPI", "MaterialBindingAPI"],
        ),
    ]
)
ALL_PURPOSE = DIRECT.replace("binding:physics", "binding")
COLLECTION = "\n".join(
    [
        MATERIAL,
        prim(
            'Xform "body"',
            "rel collection:soft:includes = </body/collider>",
            "rel material:binding:collection:physics:soft = [</body.collection:soft>, </rubber>]",
            prim(*CUBE_LINES, apis=["PhysicsCollisionAPI"]),
            apis=["PhysicsRigidBodyAPI", "MaterialBindingAPI", "CollectionAPI:soft"],
        ),
    ]
)
WAYS_TO_BIND = {"inherited": INHERITED, "for all purposes": ALL_PURPOSE, "by a collection": COLLECTION}


def of_surface(field: str):
    def read(d: Description) -> float | None:
        surface = d.shape().surface
        return None if surface is None else getattr(surface, field)

    return read


def coefficient(name: str, field: str) -> Case:
    text = f"float physics:{name} = 0.25"
    return Case(
        "PhysicsMaterialAPI",
        f"physics:{name}",
        meaning=f"`Shape.surface.{field}`",
        stage=DIRECT,
        read=of_surface(field),
        authored=Sample(text, 0.25),
        fallback=Sample("", 0.0),
        other_units=Sample(text, 0.25, "no unit"),
        more={
            **{way: Sample(text, 0.25, stage=stage) for way, stage in WAYS_TO_BIND.items()},
            "without a material": Sample("", None, stage=body(prim(*CUBE_LINES, apis=["PhysicsCollisionAPI"]))),
        },
    )


def density_and_mass(d: Description) -> tuple[float, float]:
    surface, inertial = d.shape().surface, d.link().inertial
    assert surface is not None
    assert inertial is not None
    return surface.density or 0.0, inertial.mass


MATERIALS = [
    coefficient("dynamicFriction", "dynamic_friction"),
    coefficient("staticFriction", "static_friction"),
    coefficient("restitution", "restitution"),
    Case(
        "PhysicsMaterialAPI",
        "physics:density",
        meaning="`Shape.surface.density` [kg/m3]; `Link.inertial` where nothing else gives a density",
        stage=DIRECT,
        read=density_and_mass,
        authored=Sample("float physics:density = 3", (3.0, 24.0), "8 m3 at 3 kg/m3"),
        fallback=Sample("", (0.0, 8000.0), "1000 kg/m3"),
        other_units=Sample("float physics:density = 3", (3000.0, 0.024), "8 cm3 at 3 g/cm3"),
        more={
            **{way: Sample("float physics:density = 3", (3.0, 24.0), stage=s) for way, s in WAYS_TO_BIND.items()},
            "weaker than the body's": Sample(
                "float physics:density = 3",
                (3.0, 56.0),
                "7 kg/m3",
                stage=DIRECT.replace("{\ndef Cube", "{\nfloat physics:density = 7\ndef Cube"),
            ),
        },
    ),
]

# -- groups and pairs -------------------------------------------------------------------------------------------------

BALLS = "\n".join(ball(name, x).replace(f"HERE_{name}", "") for name, x in (("a", 0), ("b", 5), ("c", 10), ("d", 15)))


def group(name: str, *members: str, lines: str = "") -> str:
    includes = ", ".join(f"</{m}>" for m in members)
    return prim(f'PhysicsCollisionGroup "{name}"', f"rel collection:colliders:includes = [{includes}]", lines)


def all_but(*filtered: str) -> set[str]:
    """The pairs among the four balls, without some."""
    pairs = {"ab", "ac", "ad", "bc", "bd", "cd"} - {*filtered}
    return {"-".join(pair) for pair in pairs}


AB_AGAINST_C = "\n".join([BALLS, group("ab", "a", "b", lines="HERE"), group("only_c", "c")])
MERGED = "\n".join(
    [
        BALLS,
        group("only_a", "a", lines='rel physics:filteredGroups = </only_c>\nstring physics:mergeGroup = "limbs"'),
        group("only_b", "b", lines="HERE"),
        group("only_c", "c"),
    ]
)
INVERTED = "\n".join(
    [BALLS, group("only_a", "a", lines="rel physics:filteredGroups = </only_c>\nHERE"), group("only_c", "c")]
)
FILTERS_C = "rel physics:filteredGroups = </only_c>"

GROUPS = [
    Case(
        "PhysicsCollisionGroup",
        "physics:filteredGroups",
        meaning="`collision.groups[].filtered`",
        stage=AB_AGAINST_C,
        read=Description.touching,
        authored=Sample(FILTERS_C, all_but("ac", "bc")),
        fallback=Sample("", all_but()),
        other_units=Sample(FILTERS_C, all_but("ac", "bc")),
        more={
            "itself": Sample("rel physics:filteredGroups = </ab>", all_but("ab")),
            "several": Sample("rel physics:filteredGroups = [</ab>, </only_c>]", all_but("ab", "ac", "bc")),
            "no group": Sample("rel physics:filteredGroups = </a>", all_but(), claims=("usd.filtered-group-target",)),
        },
    ),
    Case(
        "PhysicsCollisionGroup",
        "physics:mergeGroup",
        meaning="`collision.groups[].merge`",
        stage=MERGED,
        read=Description.touching,
        authored=Sample('string physics:mergeGroup = "limbs"', all_but("ac", "bc"), "b shares what a filters"),
        fallback=Sample("", all_but("ac")),
        other_units=Sample('string physics:mergeGroup = "limbs"', all_but("ac", "bc")),
        more={"another name": Sample('string physics:mergeGroup = "wheels"', all_but("ac"))},
    ),
    Case(
        "PhysicsCollisionGroup",
        "physics:invertFilteredGroups",
        meaning="`collision.groups[].invert`",
        stage=INVERTED,
        read=Description.touching,
        authored=Sample("bool physics:invertFilteredGroups = true", all_but("ab", "ad"), "a touches only c"),
        fallback=Sample("", all_but("ac")),
        other_units=Sample("bool physics:invertFilteredGroups = true", all_but("ab", "ad")),
        more={"authored false": Sample("bool physics:invertFilteredGroups = false", all_but("ac"))},
    ),
]


def filtering(where: str) -> str:
    """The four balls, with the pairs schema and the sample on one of their prims."""
    kind, name = ("Sphere", "a_shape") if where == "collider" else ("Xform", "a")
    before = f'def {kind} "{name}" (\n    prepend apiSchemas = ["'
    assert before in BALLS
    changed = BALLS.replace(before, f'{before}PhysicsFilteredPairsAPI", "')
    place = f'def {kind} "{name}"'
    start = changed.index("{", changed.index(place)) + 1
    return f"{changed[:start]}\nHERE{changed[start:]}"


IN_XFORM = prim(
    'Xform "around"', "HERE", ball("b", 5).replace("HERE_b", ""), ball("c", 10).replace("HERE_c", ""),
    apis=["PhysicsFilteredPairsAPI"],
)  # fmt: skip
AROUND = "\n".join([ball("a", 0).replace("HERE_a", ""), IN_XFORM, ball("d", 15).replace("HERE_d", "")])
CHAIN = "\n".join(
    [
        filtering("body").replace(
            '["PhysicsFilteredPairsAPI"', '["PhysicsFilteredPairsAPI", "PhysicsArticulationRootAPI"'
        ),
        prim(
            'PhysicsPrismaticJoint "joint"',
            "bool physics:collisionEnabled = true",
            "rel physics:body0 = </a>",
            "rel physics:body1 = </b>",
        ),
    ]
)

PAIRS = [
    Case(
        "PhysicsFilteredPairsAPI",
        "physics:filteredPairs",
        meaning="`collision.pairs`",
        stage=filtering("body"),
        read=Description.touching,
        authored=Sample("rel physics:filteredPairs = </b>", all_but("ab")),
        fallback=Sample("", all_but()),
        other_units=Sample("rel physics:filteredPairs = </b>", all_but("ab")),
        more={
            "several": Sample("rel physics:filteredPairs = [</b>, </c>]", all_but("ab", "ac")),
            "a body with a collider": Sample("rel physics:filteredPairs = </b/b_shape>", all_but("ab")),
            "a collider with a body": Sample(
                "rel physics:filteredPairs = </b>", all_but("ab"), stage=filtering("collider")
            ),
            "on an ancestor of bodies": Sample("rel physics:filteredPairs = </a>", all_but("ab", "ac"), stage=AROUND),
            "on an articulation": Sample(
                "rel physics:filteredPairs = </c>", all_but("ac", "bc"), "a and b are one articulation", stage=CHAIN
            ),
            "nothing there": Sample(
                "rel physics:filteredPairs = </nobody>", all_but(), claims=("usd.filtered-pair-target",)
            ),
        },
    ),
]

CASES = [*COLLIDERS, *MATERIALS, *GROUPS, *PAIRS]
