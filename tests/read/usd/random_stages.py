"""Random stages: trees of transforms, bodies, shapes and joints, written with OpenUSD from a description in metres.

The structure is drawn by hypothesis, which shrinks it; the numbers come from a generator with a drawn seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

MAX_DEPTH = 6
PRIMITIVES = ("Cube", "Sphere", "Capsule", "Cylinder", "Cone")
JOINTS = ("Fixed", "Revolute", "Prismatic", "Spherical", "")
AXES = "XYZ"
_file_number = itertools.count()


@dataclass(frozen=True)
class Op:
    """One transform operation; lengths in metres."""

    kind: str
    """`translate`, `scale`, `rotateXYZ` and `up` [degrees], `orient` (w, x, y, z), `transform` (4x4, rows), `pivot`."""
    value: np.ndarray


@dataclass(frozen=True)
class Solid:
    """A shape below a node."""

    name: str
    kind: str
    sizes: np.ndarray
    axis: str
    ops: tuple[Op, ...]
    collider: bool
    points: np.ndarray | None = None
    left_handed: bool = False


@dataclass(frozen=True)
class Node:
    """A transform, which may be a body, with what is below it."""

    name: str
    ops: tuple[Op, ...]
    is_body: bool = False
    enabled: bool = True
    resets: bool = False
    solids: tuple[Solid, ...] = ()
    children: tuple[Node, ...] = ()

    def walk(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """This node and all below it with their paths."""
        own = f"{path}/{self.name}"
        yield own, self
        for child in self.children:
            yield from child.walk(own)


@dataclass(frozen=True)
class End:
    """One side of a joint: a path (empty for the world), and the joint's frame there."""

    target: str
    position: np.ndarray
    quaternion: np.ndarray


@dataclass(frozen=True)
class Hinge:
    """A joint of any kind."""

    name: str
    kind: str
    axis: str
    ends: tuple[End, End]


@dataclass(frozen=True)
class StagePlan:
    """What a stage holds, in metres."""

    root: Node
    joints: tuple[Hinge, ...] = ()
    unit: float = 1.0
    up: str = "Z"

    def nodes(self) -> dict[str, Node]:
        """Path -> node."""
        return dict(self.root.walk())

    def owner(self, path: str) -> str:
        """The closest enabled body at or above a path; empty for none."""
        nodes = self.nodes()
        while path:
            node = nodes.get(path)
            if node is not None and node.is_body and node.enabled:
                return path
            path = path.rpartition("/")[0]
        return ""


# -- drawing ----------------------------------------------------------------------------------------------------------


@st.composite
def plans(draw: Callable[..., Any], *, joints: bool = True, depth: int = MAX_DEPTH) -> StagePlan:
    """Any stage: nested bodies, scales on and between them, shapes, and joints anywhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    names = (f"n{i}" for i in itertools.count())
    root = _draw_node(draw, rng, names, draw(st.integers(1, depth)))
    root = replace(root, name="World", is_body=False, resets=False)
    plan = StagePlan(root, unit=draw(st.sampled_from([1.0, 0.01, 0.001, 0.0254])), up=draw(st.sampled_from("YZ")))
    return replace(plan, joints=tuple(_draw_joints(draw, rng, plan))) if joints else plan


def _draw_node(draw: Callable[..., Any], rng: np.random.Generator, names: Iterator[str], depth: int) -> Node:
    children: list[Node] = []
    if depth > 1:
        children.append(_draw_node(draw, rng, names, depth - 1))
        if draw(st.booleans()):
            children.append(_draw_node(draw, rng, names, draw(st.integers(1, min(2, depth - 1)))))
    return Node(
        name=next(names),
        ops=draw_ops(draw, rng),
        is_body=draw(st.sampled_from([True, True, False])),
        enabled=draw(st.sampled_from([True] * 7 + [False])),
        resets=draw(st.sampled_from([False] * 4 + [True])),
        solids=tuple(draw_solid(draw, rng, next(names)) for _ in range(draw(st.integers(0, 2)))),
        children=tuple(children),
    )


def draw_ops(draw: Callable[..., Any], rng: np.random.Generator) -> tuple[Op, ...]:
    """Some operations in a random order; `pivot` is undone at the end."""
    kinds = draw(st.lists(st.sampled_from(["translate", "rotateXYZ", "orient", "scale", "transform"]), max_size=3))
    kinds = list(dict.fromkeys(kinds))
    ops = tuple(Op(kind, _numbers(kind, rng)) for kind in kinds)
    if ops and draw(st.sampled_from([False] * 4 + [True])):
        ops = (Op("pivot", rng.uniform(-1, 1, 3)), *ops)
    return ops


def _numbers(kind: str, rng: np.random.Generator) -> np.ndarray:
    if kind == "translate":
        return rng.uniform(-2, 2, 3)
    if kind == "rotateXYZ":
        return rng.uniform(-180, 180, 3)
    if kind == "orient":
        return unit_quaternion(rng)
    if kind == "scale":
        return random_scale(rng)
    matrix = np.eye(4)
    matrix[:3, :3] = _linear(rng)
    matrix[3, :3] = rng.uniform(-2, 2, 3)
    return matrix


def unit_quaternion(rng: np.random.Generator) -> np.ndarray:
    """A random rotation (w, x, y, z)."""
    q = rng.normal(size=4)
    return q / np.linalg.norm(q)


def random_scale(rng: np.random.Generator) -> np.ndarray:
    """Three scales, all alike now and then, some of them negative."""
    size = np.exp(rng.uniform(-0.6, 0.6, 3 if rng.random() < 0.7 else 1)) * np.ones(3)
    return size * np.where(rng.random(3) < 0.2, -1.0, 1.0)


def _linear(rng: np.random.Generator) -> np.ndarray:
    """A regular map with shear, possibly a mirror, that does not flatten much."""
    while True:
        linear = rng.uniform(-1, 1, (3, 3))
        s = np.linalg.svd(linear, compute_uv=False)
        if s[2] > 0.25 * s[0]:
            return linear


def draw_solid(draw: Callable[..., Any], rng: np.random.Generator, name: str) -> Solid:
    """A primitive or a small closed mesh."""
    kind = draw(st.sampled_from([*PRIMITIVES, "Mesh", "Mesh"]))
    return Solid(
        name=name,
        kind=kind,
        sizes=rng.uniform(0.1, 1.0, 2),
        axis=draw(st.sampled_from(AXES)),
        ops=draw_ops(draw, rng),
        collider=draw(st.booleans()),
        points=mesh_points(rng) if kind == "Mesh" else None,
        left_handed=kind == "Mesh" and draw(st.booleans()),
    )


MESH_COUNTS = [4, 4, 4, 4, 3, 3, 3, 3]
MESH_INDICES = [0, 2, 3, 1, 4, 5, 7, 6, 0, 1, 5, 4, 2, 6, 7, 3, 0, 4, 6, 0, 6, 2, 1, 3, 7, 1, 7, 5]
"""The faces of a cube whose corner i has coordinates of bits 2, 1, 0; seen from outside counter-clockwise or not."""


def mesh_points(rng: np.random.Generator) -> np.ndarray:
    """The corners of a crooked cube, in single precision as USD stores them."""
    corners = np.array(list(itertools.product((-0.5, 0.5), repeat=3)))
    return (corners + rng.uniform(-0.1, 0.1, corners.shape)).astype(np.float32).astype(np.float64)


def _draw_joints(draw: Callable[..., Any], rng: np.random.Generator, plan: StagePlan) -> Iterator[Hinge]:
    """Joints between different bodies, or a body and the world, some by way of prims below the bodies."""
    paths = list(plan.nodes())
    places = ["", *paths, *(f"{path}/{s.name}" for path, node in plan.nodes().items() for s in node.solids)]
    owners = {place: plan.owner(place) for place in places}
    if not any(owners.values()):
        return
    for i in range(draw(st.integers(0, 5))):
        a = draw(st.sampled_from([p for p in places if owners[p]]))
        b = draw(st.sampled_from([p for p in places if owners[p] != owners[a]]))
        ends = [End(p, rng.uniform(-1, 1, 3), unit_quaternion(rng)) for p in (a, b)]
        if draw(st.booleans()):
            ends.reverse()
        yield Hinge(f"j{i}", draw(st.sampled_from(JOINTS)), draw(st.sampled_from(AXES)), (ends[0], ends[1]))


# -- changing ---------------------------------------------------------------------------------------------------------


def in_units(plan: StagePlan, unit: float) -> StagePlan:
    """The same in other units."""
    return replace(plan, unit=unit)


def turned_to_y_up(plan: StagePlan) -> StagePlan:
    """The same with Y up: everything that hangs on the world is turned by a quarter about x."""
    quarter = Op("up", np.array(-90.0))

    def turned(node: Node, top: bool) -> Node:
        ops = (quarter, *node.ops) if top or node.resets else node.ops
        return replace(node, ops=ops, children=tuple(turned(child, False) for child in node.children))

    return replace(plan, root=turned(plan.root, True), up="Y")


def reordered(plan: StagePlan) -> StagePlan:
    """The same with siblings in the opposite order."""

    def turned(node: Node) -> Node:
        children = tuple(turned(child) for child in reversed(node.children))
        return replace(node, solids=node.solids[::-1], children=children)

    return replace(plan, root=turned(plan.root), joints=plan.joints[::-1])


def renamed(plan: StagePlan, rename: Callable[[str], str]) -> StagePlan:
    """The same with every node and solid called otherwise."""

    def turned(node: Node) -> Node:
        solids = tuple(replace(solid, name=rename(solid.name)) for solid in node.solids)
        return replace(node, name=rename(node.name), solids=solids, children=tuple(map(turned, node.children)))

    ends = [
        replace(joint, ends=tuple(replace(end, target=renamed_path(end.target, rename)) for end in joint.ends))
        for joint in plan.joints
    ]
    return replace(plan, root=turned(plan.root), joints=tuple(ends))


def renamed_path(path: str, rename: Callable[[str], str]) -> str:
    """A path of nodes and solids after renaming."""
    return "/".join(rename(name) if name else "" for name in path.split("/"))


# -- writing ----------------------------------------------------------------------------------------------------------


def write_plan(plan: StagePlan, folder: Path, suffix: str = ".usda") -> Path:
    """The plan as a new file; no two files of a test run share a name, because OpenUSD keeps layers open."""
    from pxr import Usd, UsdGeom

    file = folder / f"stage{next(_file_number)}{suffix}"
    stage = Usd.Stage.CreateNew(str(file))
    UsdGeom.SetStageMetersPerUnit(stage, plan.unit)
    UsdGeom.SetStageUpAxis(stage, plan.up)
    for path, node in plan.root.walk():
        _write_node(stage, path, node, plan.unit)
    stage.SetDefaultPrim(stage.GetPrimAtPath(f"/{plan.root.name}"))
    for joint in plan.joints:
        _write_joint(stage, joint, plan)
    stage.GetRootLayer().Save()
    return file


def _write_node(stage: Any, path: str, node: Node, unit: float) -> None:
    from pxr import UsdGeom, UsdPhysics

    xform = UsdGeom.Xform.Define(stage, path)
    if node.is_body:
        api = UsdPhysics.RigidBodyAPI.Apply(xform.GetPrim())
        if not node.enabled:
            api.CreateRigidBodyEnabledAttr(False)
    write_ops(xform, node.ops, unit, resets=node.resets)
    for solid in node.solids:
        write_solid(stage, f"{path}/{solid.name}", solid, unit)


def write_ops(xformable: Any, ops: tuple[Op, ...], unit: float, *, resets: bool = False) -> None:
    """The operations in double precision."""
    from pxr import Gf, UsdGeom

    double = UsdGeom.XformOp.PrecisionDouble
    pivot = None
    for op in ops:
        values = op.value.tolist()
        if op.kind == "translate":
            xformable.AddTranslateOp(double).Set(Gf.Vec3d(*(op.value / unit).tolist()))
        elif op.kind == "pivot":
            pivot = xformable.AddTranslateOp(double, "pivot")
            pivot.Set(Gf.Vec3d(*(op.value / unit).tolist()))
        elif op.kind == "rotateXYZ":
            xformable.AddRotateXYZOp(double).Set(Gf.Vec3d(*values))
        elif op.kind == "up":
            xformable.AddRotateXOp(double, "up").Set(float(op.value))
        elif op.kind == "orient":
            xformable.AddOrientOp(double).Set(Gf.Quatd(*values))
        elif op.kind == "scale":
            xformable.AddScaleOp(double).Set(Gf.Vec3d(*values))
        else:
            matrix = op.value.copy()
            matrix[3, :3] /= unit
            xformable.AddTransformOp(double).Set(Gf.Matrix4d(matrix.tolist()))
    if pivot is not None:
        xformable.AddTranslateOp(double, "pivot", True)
    if resets:
        xformable.SetResetXformStack(True)


def write_solid(stage: Any, path: str, solid: Solid, unit: float) -> None:
    """A shape prim."""
    from pxr import UsdGeom, UsdPhysics, Vt

    prim = getattr(UsdGeom, solid.kind).Define(stage, path)
    long, thick = (solid.sizes / unit).tolist()
    if solid.points is not None:
        prim.CreatePointsAttr(Vt.Vec3fArray.FromNumpy((solid.points / unit).astype(np.float32)))
        prim.CreateFaceVertexCountsAttr(MESH_COUNTS)
        prim.CreateFaceVertexIndicesAttr(MESH_INDICES)
        if solid.left_handed:
            prim.CreateOrientationAttr("leftHanded")
    elif solid.kind == "Cube":
        prim.CreateSizeAttr(long)
    elif solid.kind == "Sphere":
        prim.CreateRadiusAttr(thick)
    else:
        prim.CreateRadiusAttr(thick)
        prim.CreateHeightAttr(long)
        prim.CreateAxisAttr(solid.axis)
    if solid.collider:
        UsdPhysics.CollisionAPI.Apply(prim.GetPrim())
    write_ops(prim, solid.ops, unit)


def _write_joint(stage: Any, joint: Hinge, plan: StagePlan) -> None:
    from pxr import Gf, Sdf, UsdPhysics

    prim = getattr(UsdPhysics, f"{joint.kind}Joint").Define(stage, f"/{plan.root.name}/{joint.name}")
    if joint.kind in ("Revolute", "Prismatic", "Spherical"):
        prim.CreateAxisAttr(joint.axis)
    for number, end in enumerate(joint.ends):
        if end.target:
            prim.GetPrim().GetRelationship(f"physics:body{number}").SetTargets([Sdf.Path(end.target)])
        position, rotation = (f"physics:local{what}{number}" for what in ("Pos", "Rot"))
        prim.GetPrim().GetAttribute(position).Set(Gf.Vec3f(*(end.position / plan.unit).tolist()))
        prim.GetPrim().GetAttribute(rotation).Set(Gf.Quatf(*end.quaternion.tolist()))
