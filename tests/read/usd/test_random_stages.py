"""Random stages: everything is where OpenUSD's own transform cache puts it, to 1e-9, whatever the scales and shears."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kinema import geometry as geo
from kinema.core import Array, Diagnostics, Pose
from kinema.description import Box, Capsule, Cone, Cylinder, Ellipsoid, Joint, Link, Mesh, Robot, Shape, Sphere, World
from kinema.read.usd import read_usd

from .random_stages import (
    MESH_COUNTS,
    MESH_INDICES,
    End,
    Hinge,
    Node,
    Op,
    Solid,
    StagePlan,
    in_units,
    plans,
    renamed,
    renamed_path,
    reordered,
    turned_to_y_up,
    unit_quaternion,
    write_plan,
)
from .stage_oracle import Map, Oracle, quaternion_matrix

TOLERANCE = 1e-9
many = settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stages")


def read(file: Path) -> tuple[Robot | World, Diagnostics]:
    diagnostics = Diagnostics()
    return read_usd(file, diagnostics=diagnostics), diagnostics


def links_by_path(described: Robot | World) -> dict[str, Link]:
    return {link.origin.path: link for link in described.links}


def shapes_by_path(described: Robot | World) -> dict[str, tuple[Pose, Shape]]:
    """Path -> the authored pose of the shape's link, and the shape."""
    found = {s.origin.path: (Pose(), s) for s in described.shapes} if isinstance(described, World) else {}
    for link in described.links:
        assert link.pose is not None
        found |= {shape.origin.path: (link.pose, shape) for shape in link.shapes}
    return found


def solids_by_path(plan: StagePlan) -> dict[str, Solid]:
    return {f"{path}/{solid.name}": solid for path, node in plan.root.walk() for solid in node.solids}


def assert_near(found: Array, wanted: Array, what: str) -> None:
    size = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE * size, err_msg=what)


# -- bodies and shapes ------------------------------------------------------------------------------------------------


@many
@given(plans(), st.sampled_from([".usda", ".usdc"]))
def test_bodies_and_shapes_are_where_openusd_puts_them(folder: Path, plan: StagePlan, suffix: str) -> None:
    """Link origins, every mesh vertex, every primitive's surface, each on the closest enabled body."""
    file = write_plan(plan, folder, suffix)
    described, diagnostics = read(file)
    oracle = Oracle(file)
    assert not diagnostics.errors()
    links = links_by_path(described)
    assert set(links) == {path for path, node in plan.nodes().items() if node.is_body and node.enabled}
    for path, link in links.items():
        pose = link.pose
        assert pose is not None
        assert_near(pose.position, oracle.world(path).offset, path)
        np.testing.assert_allclose(pose.rotation.T @ pose.rotation, np.eye(3), atol=1e-12)
        assert np.linalg.det(pose.rotation) > 0
        stretch = pose.rotation.T @ oracle.world(path).linear
        assert_near(stretch, stretch.T, f"{path}: the rest of T = Q S is symmetric")
        nested_in = plan.owner(path.rpartition("/")[0])
        assert link.nested_in == (links[nested_in].name if nested_in else None)
    found = shapes_by_path(described)
    assert set(found) == set(solids_by_path(plan))
    for path, solid in solids_by_path(plan).items():
        link_pose, shape = found[path]
        owner = plan.owner(path.rpartition("/")[0])
        assert (shape in links[owner].shapes) if owner else isinstance(described, World)
        assert shape.collision == solid.collider
        assert shape.visual
        check_shape(oracle.world(path), oracle.unit, solid, link_pose @ shape.pose, shape)


def check_shape(world: Map, unit: float, solid: Solid, placed: Pose, shape: Shape) -> None:
    geometry = shape.geometry
    if solid.kind == "Mesh":
        assert isinstance(geometry, Mesh)
        assert geometry.vertices is not None
        assert geometry.faces is not None
        check_mesh(world, unit, solid, placed, geometry.vertices, geometry.faces)
    elif isinstance(geometry, Mesh):
        assert solid.kind != "Sphere", "every linear image of a sphere is an ellipsoid"
        check_tessellation(world, unit, solid, placed, geometry)
    else:
        surface = world.apply(usd_surface(solid, unit))
        inside = placed.inverse().apply(surface)
        size = float(np.abs(surface).max())
        np.testing.assert_allclose(off_surface(geometry, inside), 0, atol=TOLERANCE * max(1.0, size))


def check_mesh(world: Map, unit: float, solid: Solid, placed: Pose, vertices: Array, faces: np.ndarray) -> None:
    assert solid.points is not None
    points = (solid.points / unit).astype(np.float32).astype(np.float64)
    assert_near(placed.apply(vertices), world.apply(points), "vertices")
    # a closed mesh keeps its inside inside, however often it is mirrored
    local = geo.signed_volume(geo.MeshData(points, fan(solid.left_handed)))
    here = geo.signed_volume(geo.MeshData(vertices, faces))
    assert np.isclose(here, local * abs(np.linalg.det(world.linear)), rtol=1e-9)


def fan(left_handed: bool) -> np.ndarray:
    """The triangles of the test mesh."""
    triangles, start = [], 0
    for count in MESH_COUNTS:
        corners = MESH_INDICES[start : start + count]
        triangles += [(corners[0], corners[i], corners[i + 1]) for i in range(1, count - 1)]
        start += count
    return np.array(triangles)[:, ::-1] if left_handed else np.array(triangles)


def check_tessellation(world: Map, unit: float, solid: Solid, placed: Pose, mesh: Mesh) -> None:
    """A primitive that became a mesh: its vertices are on the true surface, its volume is almost the true one."""
    assert mesh.vertices is not None
    assert mesh.faces is not None
    local = world.solve(placed.apply(mesh.vertices))
    distance = off_surface(as_authored(solid, unit), along_z(local, solid.axis))
    np.testing.assert_allclose(distance / np.abs(local).max(), 0, atol=TOLERANCE)
    volume = geo.signed_volume(geo.MeshData(mesh.vertices, mesh.faces))
    true = true_volume(solid, unit) * abs(np.linalg.det(world.linear))
    assert 0.9 * true < volume <= true * (1 + 1e-9)


# USD's primitives, written down from the schema's text


def as_authored(solid: Solid, unit: float) -> Box | Sphere | Capsule | Cylinder | Cone:
    """The primitive before any transform, along z."""
    long, thick = (solid.sizes / unit).tolist()
    match solid.kind:
        case "Cube":
            return Box(np.full(3, long))
        case "Sphere":
            return Sphere(thick)
        case "Capsule":
            return Capsule(thick, long)
        case "Cylinder":
            return Cylinder(thick, long)
    return Cone(thick, long)


def along_z(points: Array, axis: str) -> Array:
    """Points of a primitive along an axis, for one along z: a cyclic change of coordinates."""
    return {"X": points[:, [1, 2, 0]], "Y": points[:, [2, 0, 1]], "Z": points}[axis]


def from_z(points: Array, axis: str) -> Array:
    return {"X": points[:, [2, 0, 1]], "Y": points[:, [1, 2, 0]], "Z": points}[axis]


def usd_surface(solid: Solid, unit: float) -> Array:
    """Points all over the primitive's surface, in the prim's coordinates."""
    long, thick = (solid.sizes / unit).tolist()
    angles = np.linspace(0, 2 * np.pi, 7, endpoint=False)
    circle = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(7)])
    up = np.array([0.0, 0.0, 1.0])
    if solid.kind == "Cube":
        grid = np.linspace(-1, 1, 4)
        points = np.array([(x, y, z) for x in grid for y in grid for z in grid if max(abs(x), abs(y), abs(z)) == 1])
        return points * long / 2
    latitudes = np.linspace(-np.pi / 2, np.pi / 2, 6)
    if solid.kind == "Sphere":
        return thick * np.vstack([np.cos(a) * circle + np.sin(a) * up for a in latitudes])
    if solid.kind == "Capsule":
        ends = [thick * (np.cos(a) * circle + np.sin(a) * up) + np.sign(a) * long / 2 * up for a in latitudes]
        return from_z(np.vstack(ends), solid.axis)
    levels = np.linspace(-0.5, 0.5, 5)
    radii = {"Cylinder": np.ones(5), "Cone": 0.5 - levels}[solid.kind]
    side = [thick * r * circle + level * long * up for r, level in zip(radii, levels, strict=True)]
    caps = [thick * r * circle - long / 2 * up for r in (0.0, 0.4)]
    return from_z(np.vstack([*side, *caps]), solid.axis)


def true_volume(solid: Solid, unit: float) -> float:
    long, thick = (solid.sizes / unit).tolist()
    disc = np.pi * thick**2
    return {
        "Cube": long**3,
        "Sphere": 4 / 3 * disc * thick,
        "Capsule": disc * long + 4 / 3 * disc * thick,
        "Cylinder": disc * long,
        "Cone": disc * long / 3,
    }[solid.kind]


def off_surface(geometry: object, points: Array) -> Array:
    """How far points are from the surface of a primitive in its own frame; zero on it, to first order."""
    x, y, z = points.T
    across = np.hypot(x, y)
    match geometry:
        case Box():
            return np.max(np.abs(points) - geometry.size / 2, axis=1)
        case Sphere():
            return np.linalg.norm(points, axis=1) - geometry.radius
        case Ellipsoid():
            return (np.linalg.norm(points / geometry.radii, axis=1) - 1) * geometry.radii.min()
        case Capsule():
            beyond = z - np.clip(z, -geometry.length / 2, geometry.length / 2)
            return np.hypot(across, beyond) - geometry.radius
        case Cylinder():
            return np.maximum(across - geometry.radius, np.abs(z) - geometry.length / 2)
        case Cone():
            slope = geometry.radius / geometry.length
            side = (across - slope * (geometry.length / 2 - z)) / np.hypot(1.0, slope)
            return np.maximum(side, -geometry.length / 2 - z)
    raise AssertionError(f"{geometry} is no primitive")


@many
@given(plans(joints=False))
def test_posed_meshes_are_where_openusd_puts_them(folder: Path, plan: StagePlan) -> None:
    """The same through `posed_meshes`, which is what users call: vertices of meshes in the world."""
    file = write_plan(plan, folder)
    described, _ = read(file)
    oracle = Oracle(file)
    name_of = {s.name: path for path, (_, s) in shapes_by_path(described).items()}
    for kind in ("collision", "visual"):
        posed = {name_of[m.shape]: m for m in described.posed_meshes({}, kind=kind)}
        wanted = {path: s for path, s in solids_by_path(plan).items() if s.collider or kind == "visual"}
        assert set(posed) == set(wanted)
        for path, solid in wanted.items():
            if solid.points is not None:
                points = (solid.points / plan.unit).astype(np.float32).astype(np.float64)
                assert_near(posed[path].vertices, oracle.world(path).apply(points), path)


# -- joints -----------------------------------------------------------------------------------------------------------


@many
@given(plans())
def test_joints_are_where_openusd_puts_them(folder: Path, plan: StagePlan) -> None:
    """The anchor and the axis of every joint, seen from either side."""
    file = write_plan(plan, folder)
    described, _ = read(file)
    oracle = Oracle(file)
    links = links_by_path(described)
    joints = {joint.origin.path: joint for joint in described.joints}
    assert set(joints) == {f"/World/{hinge.name}" for hinge in plan.joints}
    for hinge in plan.joints:
        path = f"/World/{hinge.name}"
        joint = joints[path]
        for number, end in enumerate(hinge.ends):
            owner = plan.owner(end.target)
            link_name, frame = [(joint.parent, joint.parent_pose), (joint.child, joint.child_pose)][number]
            assert link_name == (links[owner].name if owner else None)
            if owner:
                pose = links[owner].pose
                assert pose is not None
                frame = pose @ frame
            world = oracle.world(end.target)
            local = np.array(oracle.attribute(path, f"physics:localPos{number}"), dtype=np.float64)
            assert_near(frame.position, world.apply(local), f"anchor of {path} on body{number}")
            np.testing.assert_allclose(frame.rotation.T @ frame.rotation, np.eye(3), atol=1e-12)
            turn = quaternion_matrix(oracle.attribute(path, f"physics:localRot{number}"))
            check_axes(hinge, joint, frame.rotation, world.linear @ turn, f"axis of {path} on body{number}")


def check_axes(hinge: Hinge, joint: Joint, frame: Array, wanted: Array, what: str) -> None:
    """The joint's axis is where the transform takes it; frames without one turn with their body."""
    wanted = wanted / np.linalg.norm(wanted, axis=0)
    if hinge.kind in ("Revolute", "Prismatic"):
        assert_near(frame @ joint.axes[0].direction, wanted[:, "XYZ".index(hinge.axis)], what)
    elif hinge.kind == "Spherical":
        assert_near(frame[:, "XYZ".index(hinge.axis)], wanted[:, "XYZ".index(hinge.axis)], what)
    elif np.abs(wanted.T @ wanted - np.eye(3)).max() < 1e-12 and np.linalg.det(wanted) > 0:
        # without shear and mirrors there is but one frame
        assert_near(frame, wanted, what)


# -- motion -----------------------------------------------------------------------------------------------------------


@many
@given(plans(joints=False), st.integers(0, 2**32 - 1))
def test_the_shown_state_puts_every_link_where_openusd_does(folder: Path, plan: StagePlan, seed: int) -> None:
    """Joints that fit, on sheared bodies too: forward kinematics at the state that the stage shows gives the stage.

    Joint frames are stored in single precision, so that this holds to single precision.
    """
    rng = np.random.default_rng(seed)
    fitted = replace(plan, joints=tuple(fitting_joints(plan, Oracle(write_plan(plan, folder)), rng)))
    assert_state_is_shown(fitted, folder, 3e-5)


def fitting_joints(plan: StagePlan, oracle: Oracle, rng: np.random.Generator) -> list[Hinge]:
    """A joint for most bodies, to the world or to another body, whose two sides meet."""
    bodies = [path for path, node in plan.nodes().items() if node.is_body and node.enabled]
    joints: list[Hinge] = []
    for i, child in enumerate(bodies):
        parent = ["", *bodies[:i]][rng.integers(0, i + 1)]
        kind = rng.choice(["Revolute", "Spherical", "Prismatic", "Fixed"])
        axis = int(rng.integers(0, 3))
        maps = [oracle.world(parent), oracle.world(child)]
        if kind in ("Prismatic", "Fixed") and not all(keeps_angles(m.linear) for m in maps):
            kind = "Revolute"  # which asks no more than that the two axes meet
        anchor, frame = rng.uniform(-2, 2, 3), rotation_of(unit_quaternion(rng))
        travel = rng.uniform(-1, 1) if kind == "Prismatic" else 0.0
        ends = []
        for path, world, offset in zip((parent, child), maps, (0.0, travel), strict=True):
            local = world.solve((anchor + offset * frame[:, axis])[None])[0] * oracle.unit
            ends.append(End(path, local, local_turn(world.linear, frame, axis, kind)))
        order = slice(None, None, -1 if rng.random() < 0.4 else 1)
        joints.append(Hinge(f"j{i}", str(kind), "XYZ"[axis], tuple(ends[order])))
    return joints


def keeps_angles(linear: Array) -> bool:
    """Whether a map is a rotation and one scale."""
    gram = linear.T @ linear
    return bool(np.abs(gram - gram[0, 0] * np.eye(3)).max() < 1e-9 * gram[0, 0] and np.linalg.det(linear) > 0)


def local_turn(linear: Array, frame: Array, axis: int, kind: str) -> Array:
    """A quaternion on a prim, such that the axis (all axes, for joints that do not turn) comes where it is wanted."""
    if kind in ("Prismatic", "Fixed"):
        return quaternion_of(linear.T @ frame)
    direction = np.linalg.solve(linear, frame[:, axis])
    columns = np.linalg.qr(np.column_stack([direction, np.eye(3)]))[0]  # an orthonormal basis with that axis first
    columns[:, 0] = direction / np.linalg.norm(direction)
    turn = columns[:, [(3 - axis) % 3, (4 - axis) % 3, (5 - axis) % 3]]
    if np.linalg.det(turn) < 0:
        turn[:, (axis + 1) % 3] *= -1
    return quaternion_of(turn)


def rotation_of(q: Array) -> Array:
    return Pose.from_quaternion([0, 0, 0], q).rotation


def quaternion_of(matrix: Array) -> Array:
    return Pose(rotation=matrix / np.cbrt(np.linalg.det(matrix))).quaternion


def assert_state_is_shown(plan: StagePlan, folder: Path, tolerance: float) -> None:
    file = write_plan(plan, folder)
    described, diagnostics = read(file)
    assert "usd.joint-frames-apart" not in diagnostics.codes()
    oracle = Oracle(file)
    assert len(described.joints) == len(plan.joints)
    state = {joint.name: joint.state for joint in described.joints if joint.state is not None and joint.n_qs}
    poses = described.link_poses(state)
    for link in described.links:
        assert link.pose is not None
        size = max(1.0, float(np.abs(link.pose.position).max()))
        metres, radians = poses[link.name].distance(link.pose)
        assert metres <= tolerance * size, link.name
        assert radians <= tolerance, link.name
    name_of = {s.name: path for path, (_, s) in shapes_by_path(described).items()}
    solids = solids_by_path(plan)
    for posed in described.posed_meshes(state, kind="visual"):
        path = name_of[posed.shape]
        points = solids[path].points
        if points is not None:
            wanted = oracle.world(path).apply((points / plan.unit).astype(np.float32).astype(np.float64))
            size = max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(posed.vertices, wanted, rtol=0, atol=2 * tolerance * size)


EXACT_QUATERNIONS = [
    np.array(q) for q in itertools.product((-0.5, 0.0, 0.5, 1.0), repeat=4) if abs(np.linalg.norm(q) - 1) < 1e-12
]
"""Rotations whose numbers single precision holds exactly: those of a tetrahedron."""


@many
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.booleans())
def test_the_shown_state_is_exact_where_the_numbers_are(folder: Path, seed: int, length: int, nested: bool) -> None:
    """Where single precision holds every number, nothing is lost along a chain, nested or flat, scaled or not."""
    rng = np.random.default_rng(seed)

    def node(i: int, children: tuple[Node, ...]) -> Node:
        ops = (
            Op("translate", rng.integers(-32, 32, 3) / 16),
            Op("orient", EXACT_QUATERNIONS[rng.integers(len(EXACT_QUATERNIONS))]),
            Op("scale", np.full(3, 2.0 ** rng.integers(-1, 2))),
        )
        corners = np.array(list(itertools.product((-0.5, 0.5), repeat=3)))
        solid = Solid(f"s{i}", "Mesh", np.ones(2), "Z", ops[:1], True, corners)
        return Node(f"n{i}", ops, is_body=True, solids=(solid,), children=children)

    nodes: tuple[Node, ...] = ()
    for i in range(length):
        nodes = (node(i, nodes),) if nested else (*nodes, node(i, ()))
    plan = StagePlan(Node("World", (), children=nodes))
    oracle = Oracle(write_plan(plan, folder))
    bodies = [path for path, n in plan.nodes().items() if n.is_body]
    joints = [
        exact_joint(oracle, i, bodies[i - 1] if i else "", path, rng)
        for i, path in enumerate(bodies)
        if rng.random() < 0.9
    ]
    assert_state_is_shown(replace(plan, joints=tuple(joints)), folder, 1e-12)


def exact_joint(oracle: Oracle, number: int, parent: str, child: str, rng: np.random.Generator) -> Hinge:
    frame = rotation_of(EXACT_QUATERNIONS[rng.integers(len(EXACT_QUATERNIONS))])
    anchor, axis = rng.integers(-32, 32, 3) / 16, int(rng.integers(0, 3))
    kind = str(rng.choice(["Revolute", "Prismatic", "Spherical", "Fixed"]))
    travel = float(rng.integers(-16, 16)) / 16 if kind == "Prismatic" else 0.0
    ends = []
    for path, offset in ((parent, 0.0), (child, travel)):
        world = oracle.world(path)
        local = world.solve((anchor + offset * frame[:, axis])[None])[0]
        ends.append(End(path, local, quaternion_of(world.linear.T @ frame).round(3)))
    return Hinge(f"j{number}", kind, "XYZ"[axis], (ends[0], ends[1]))


# -- what must not matter ---------------------------------------------------------------------------------------------


def facts(described: Robot | World) -> dict[str, list[np.ndarray | str]]:
    """All numbers of a description, by what they belong to."""
    result: dict[str, list[np.ndarray | str]] = {}
    path_of = {link.name: link.origin.path for link in described.links}
    for link in described.links:
        assert link.pose is not None
        numbers: list[np.ndarray | str] = [path_of[link.nested_in] if link.nested_in else "", link.pose.matrix]
        if link.inertial is not None:
            numbers += [np.array(link.inertial.mass), link.inertial.center, link.inertial.inertia]
        result[link.origin.path] = numbers
    for path, (_, shape) in shapes_by_path(described).items():
        result[path] = [shape.kind, str(shape.collision), shape.pose.matrix, *geometry_facts(shape)]
    for joint in described.joints:
        ends = [path_of[end] if end else "" for end in (joint.parent, joint.child)]
        directions = [axis.direction for axis in joint.axes]
        frames = [joint.parent_pose.matrix, joint.child_pose.matrix]
        state = [] if joint.state is None else [joint.state]
        result[joint.origin.path] = [joint.kind.value, *ends, *frames, *directions, *state]
    return result


def geometry_facts(shape: Shape) -> list[np.ndarray | str]:
    geometry = shape.geometry
    if isinstance(geometry, Mesh):
        assert geometry.vertices is not None
        assert geometry.faces is not None
        return [geometry.vertices, geometry.faces]
    return [np.array(getattr(geometry, name)) for name in geometry.__slots__]  # type: ignore[attr-defined]


def assert_same_facts(a: Robot | World, b: Robot | World, rename: Callable[[str], str] = str) -> None:
    first, second = facts(a), facts(b)
    assert {rename(path) for path in first} == set(second)
    for path, numbers in first.items():
        others = second[rename(path)]
        assert len(others) == len(numbers), path
        for one, other in zip(numbers, others, strict=True):
            if isinstance(one, str) or isinstance(other, str):
                assert other in (one, rename(str(one))), path
            else:
                size = max(1.0, float(np.abs(one).max(initial=0.0)))
                np.testing.assert_allclose(other, one, rtol=0, atol=TOLERANCE * size, err_msg=path)


few = settings(many, max_examples=15)


@few
@given(plans(), st.sampled_from([0.5, 0.125, 4.0]))
def test_units_do_not_matter(folder: Path, plan: StagePlan, unit: float) -> None:
    """The same lengths in other units (powers of two, which keep single precision exact) are the same robot."""
    first, second = (read(write_plan(in_units(plan, u), folder))[0] for u in (1.0, unit))
    assert_same_facts(first, second)


@few
@given(plans())
def test_the_up_axis_does_not_matter(folder: Path, plan: StagePlan) -> None:
    """A stage with Y up is the stage with Z up, turned."""
    held = tuple(j for j in plan.joints if all(end.target for end in j.ends))
    upright = replace(plan, joints=held, up="Z")
    first, second = (read(write_plan(p, folder))[0] for p in (upright, turned_to_y_up(upright)))
    assert_same_facts(first, second)


@few
@given(plans())
def test_the_order_of_siblings_does_not_matter(folder: Path, plan: StagePlan) -> None:
    """What is written first is not more important."""
    first, second = (read(write_plan(p, folder))[0] for p in (plan, reordered(plan)))
    assert_same_facts(first, second)


@few
@given(plans())
def test_names_do_not_matter(folder: Path, plan: StagePlan) -> None:
    """Prims called otherwise, several of them alike in different places, are the same robot."""

    def rename(name: str) -> str:
        return f"{name}_é" if name[:1] == "n" and name[1:].isdigit() else name

    first, second = (read(write_plan(p, folder))[0] for p in (plan, renamed(plan, rename)))
    assert_same_facts(first, second, lambda path: renamed_path(path, rename))
