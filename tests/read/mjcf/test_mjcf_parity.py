"""What Kinema reads is what MuJoCo reads: poses, inertias, shapes, limits, on real robots and on every feature."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from kinema.core import Array, Pose
from kinema.description import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    HeightField,
    JointKind,
    Mesh,
    Plane,
    Robot,
    Shape,
    Sphere,
    World,
    mesh_data,
)
from kinema.read.mjcf import read_mjcf
from kit.assets import all_assets, asset_id
from kit.mjcf_texts import INLINE, configuration, write
from kit.mujoco_models import load, random_positions

N_CONFIGURATIONS = 20

Case = tuple[Any, Robot | World]
"""MuJoCo's model and Kinema's description of one file."""

_CASES: list[Path | str] = [*all_assets("mjcf/**/*.xml"), *INLINE]


@pytest.fixture(scope="module")
def read_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path | str], Case]:
    """Reads each file once for all tests here."""
    known: dict[Path | str, Case] = {}

    def get(case: Path | str) -> Case:
        if case not in known:
            path = case if isinstance(case, Path) else write(tmp_path_factory.mktemp("m"), INLINE[case])
            known[case] = load(path), read_mjcf(path)
        return known[case]

    return get


@pytest.fixture(params=_CASES, ids=lambda c: asset_id(c) if isinstance(c, Path) else c)
def case(request: pytest.FixtureRequest, read_once: Callable[[Path | str], Case]) -> Case:
    return read_once(request.param)


def _posed(model: Any, q: Array) -> Any:
    data = mujoco.MjData(model)
    data.qpos[:] = q
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    return data


def _name(model: Any, kind: str, number: int) -> str:
    return mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind}"), number) or ""


def _shapes(described: Robot | World) -> list[tuple[str | None, Shape]]:
    """All shapes in MuJoCo's order: the world's, then body by body."""
    scenery = [(None, s) for s in described.shapes] if isinstance(described, World) else []
    links = sorted(described.links, key=lambda link: _order(described, link.name))
    return [*scenery, *((link.name, s) for link in links for s in link.shapes)]


def _order(described: Robot | World, name: str) -> int:
    return next(i for i, link in enumerate(described.links) if link.name == name)


def _body_numbers(model: Any, described: Robot | World) -> dict[str, int]:
    """Links come body by body within each robot; robots are told apart by their first bodies."""
    robots = described.robots if isinstance(described, World) else [described]
    numbers = {_name(model, "BODY", b): b for b in range(1, model.nbody) if _name(model, "BODY", b)}
    for robot in robots:
        for link in robot.links:
            if link.name_is_generated:
                numbers[link.name] = int(link.name.removeprefix("body_"))
    return numbers


def test_every_body_is_a_link(case: Case) -> None:
    """Counts and names of bodies and joints, and who hangs on whom."""
    model, described = case
    numbers = _body_numbers(model, described)
    assert sorted(numbers[link.name] for link in described.links) == list(range(1, model.nbody))
    own = [j for j in described.joints if not j.implicit]
    assert len(own) == model.njnt
    assert {j.name for j in own if not j.name_is_generated} == {
        name for i in range(model.njnt) if (name := _name(model, "JOINT", i))
    }
    assert described.n_dofs == model.nv
    assert described.n_qs == model.nq
    for link in described.links:
        parent = int(model.body_parentid[numbers[link.name]])
        assert (0 if link.nested_in is None else numbers[link.nested_in]) == parent


def test_link_poses(case: Case) -> None:
    """At random configurations every link is where MuJoCo has its body."""
    model, described = case
    numbers = _body_numbers(model, described)
    generator = np.random.default_rng(7)
    for _ in range(N_CONFIGURATIONS):
        q = random_positions(model, generator)
        data = _posed(model, q)
        order = _positions_in_description_order(model, described, q)
        for name, pose in described.link_poses(configuration(described, order)).items():
            number = numbers[name]
            np.testing.assert_allclose(pose.position, data.xpos[number], atol=1e-9)
            np.testing.assert_allclose(pose.rotation, data.xmat[number].reshape(3, 3), atol=1e-9)


def _positions_in_description_order(
    model: Any, described: Robot | World, q: Array, part: Robot | World | None = None
) -> Array:
    """Coordinates of the joints of a description, or of one part of it, in its order."""
    numbers = _body_numbers(model, described)
    parts = []
    for joint in (part or described).joints:
        if joint.n_qs and not joint.stacked:
            body = numbers[joint.child or ""]
            first = int(model.body_jntadr[body])
            last = first + int(model.body_jntnum[body])
            end = int(model.jnt_qposadr[last]) if last < model.njnt else model.nq
            parts.append(q[int(model.jnt_qposadr[first]) : end])
    return np.concatenate([np.zeros(0), *parts])


def test_robots_keep_the_order_of_coordinates(case: Case) -> None:
    """`set_qpos` takes MuJoCo's layout: the joints of a world, and of each robot, come in MuJoCo's order."""
    model, described = case
    q = np.arange(float(model.nq))
    for part in (described, *(described.robots if isinstance(described, World) else ())):
        order = _positions_in_description_order(model, described, q, part)
        assert (np.diff(order) > 0).all()
        assert len(order) == part.n_qs


def test_reference_configuration(case: Case) -> None:
    """At each joint's reference coordinate the links stand as MuJoCo's at qpos0."""
    model, described = case
    numbers = _body_numbers(model, described)
    data = _posed(model, model.qpos0)
    q = {j.name: [j.axes[0].reference] for j in described.joints if j.n_qs == 1}
    for name, pose in described.link_poses(q).items():
        np.testing.assert_allclose(pose.position, data.xpos[numbers[name]], atol=1e-9)


def test_inertias(case: Case) -> None:
    """Mass, centre and inertia tensor of every link."""
    model, described = case
    numbers = _body_numbers(model, described)
    data = _posed(model, model.qpos0)
    for link in described.links:
        number = numbers[link.name]
        if model.body_mass[number] == 0:
            assert link.inertial is None
            continue
        assert link.inertial is not None
        assert link.inertial.mass == pytest.approx(model.body_mass[number], rel=1e-12)
        np.testing.assert_allclose(link.inertial.center, model.body_ipos[number], atol=1e-12)
        frame = data.xmat[number].reshape(3, 3).T @ data.ximat[number].reshape(3, 3)
        inertia = frame @ np.diag(model.body_inertia[number]) @ frame.T
        size = np.abs(inertia).max()
        moments = np.linalg.eigvalsh(link.inertial.inertia)
        np.testing.assert_allclose(moments, np.sort(model.body_inertia[number]), atol=1e-12 * size)
        # the axes that MuJoCo finds are off by up to 2e-7 rad: the moments agree better than the tensor
        np.testing.assert_allclose(link.inertial.inertia, inertia, atol=1e-7 * size)
    assert described.total_mass == pytest.approx(model.body_mass[1:].sum(), rel=1e-12)


def test_shapes(case: Case) -> None:
    """Types, sizes, names, masks and world poses of all geoms; mesh geoms by their vertices."""
    model, described = case
    data = _posed(model, model.qpos0)
    numbers = _body_numbers(model, described)
    poses = {name: Pose(data.xpos[number], data.xmat[number].reshape(3, 3)) for name, number in numbers.items()}
    seen = 0
    for body in range(model.nbody):
        name = next((n for n, b in numbers.items() if b == body), None)
        shapes = [s for link, s in _shapes(described) if link == name]
        first = int(model.body_geomadr[body])
        assert len(shapes) == model.body_geomnum[body]
        for geom, shape in enumerate(shapes, start=first):
            seen += 1
            assert shape.name == _name(model, "GEOM", geom) or shape.name_is_generated
            assert (shape.contype, shape.conaffinity) == (model.geom_contype[geom], model.geom_conaffinity[geom])
            _same_shape(model, data, geom, shape, Pose() if name is None else poses[name])
    assert seen == model.ngeom


def _same_shape(model: Any, data: Any, geom: int, shape: Shape, link: Pose) -> None:
    pose = link @ shape.pose
    true = Pose(data.geom_xpos[geom], data.geom_xmat[geom].reshape(3, 3))
    size = model.geom_size[geom]
    if isinstance(shape.geometry, Mesh):
        number = int(model.geom_dataid[geom])
        start = int(model.mesh_vertadr[number])
        expected = true.apply(model.mesh_vert[start : start + int(model.mesh_vertnum[number])])
        found = mesh_data(shape.geometry)
        assert found is not None
        _same_points(pose.apply(found.vertices), expected)
        return
    np.testing.assert_allclose(pose.position, true.position, atol=1e-9)
    np.testing.assert_allclose(pose.rotation, true.rotation, atol=1e-9)
    match shape.geometry:
        case Sphere():
            assert shape.geometry.radius == size[0]
        case Capsule() | Cylinder():
            assert (shape.geometry.radius, shape.geometry.length) == (size[0], 2 * size[1])
        case Box():
            np.testing.assert_array_equal(shape.geometry.size, 2 * size)
        case Ellipsoid():
            np.testing.assert_array_equal(shape.geometry.radii, size)
        case Plane():
            assert shape.geometry.size in (None, (2 * size[0], 2 * size[1]))
        case HeightField():
            assert shape.geometry.heights.shape == (model.hfield_nrow[0], model.hfield_ncol[0])


def _same_points(found: Array, expected: Array) -> None:
    """The same set of points, whatever their order; MuJoCo keeps 32-bit vertices, and welds those of STL files."""
    from scipy.spatial import KDTree

    scale = max(1.0, float(np.abs(expected).max()))
    for one, other in ((found, expected), (expected, found)):
        assert KDTree(other).query(one)[0].max() < 1e-5 * scale


def test_limits_and_dynamics(case: Case) -> None:
    """Limits, springs, damping, friction and rotor inertia of every joint."""
    model, described = case
    numbers = _body_numbers(model, described)
    for joint in described.joints:
        if joint.implicit:
            assert joint.kind is JointKind.FIXED
            continue
        same_body = [j for j in described.joints if j.child == joint.child]
        number = int(model.body_jntadr[numbers[joint.child or ""]]) + same_body.index(joint)
        dof = int(model.jnt_dofadr[number])
        for i, axis in enumerate(joint.axes):
            assert (axis.damping, axis.armature) == (model.dof_damping[dof + i], model.dof_armature[dof + i])
            assert axis.friction == model.dof_frictionloss[dof + i]
            assert axis.stiffness == model.jnt_stiffness[number]
        limited = bool(model.jnt_limited[number])
        if joint.kind is JointKind.SPHERICAL:
            assert (joint.cone is not None) == limited
        elif joint.n_dofs == 1:
            bounds = tuple(model.jnt_range[number]) if limited else (-np.inf, np.inf)
            assert (joint.axes[0].lower, joint.axes[0].upper) == bounds
            np.testing.assert_allclose(joint.axes[0].direction, model.jnt_axis[number], atol=1e-15)


def test_everything_has_a_place(case: Case) -> None:
    """Every link, joint and shape knows the file and the line it comes from."""
    _, described = case
    for node in [*described.links, *described.joints, *(s for _, s in _shapes(described))]:
        assert Path(node.origin.file).is_file()
        assert node.origin.line is not None
        line = Path(node.origin.file).read_text(encoding="utf-8").splitlines()[node.origin.line - 1]
        assert "<" in line
