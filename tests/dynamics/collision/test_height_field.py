"""Shapes on a height field, and meshes on a plane, beside MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from scipy.spatial import ConvexHull

from kinema.core import Array
from kinema.dynamics.collision.collision_table import convex_collision_table
from kit.choosing import representative_tuples

from .convex_driver import Compiled, CompiledField, box_corners, polyhedron
from .driver import Poses
from .poses import rotations

CONVEX_PAIRS = convex_collision_table(multiccd=True)
COUNT, MARGIN = 200, 0.02
HALF, TOP, BASE = (1.2, 0.9), 0.3, 0.2
HEIGHTS = np.random.default_rng(3).uniform(0.0, 1.0, (7, 9))


def poses_above() -> Poses:
    generator = np.random.default_rng(4)
    places = generator.uniform((-1.3, -1.0, -0.1), (1.3, 1.0, 0.5), (COUNT, 3))
    field = (np.zeros((COUNT, 3)), np.tile(np.eye(3), (COUNT, 1, 1)), np.tile((*HALF, BASE), (COUNT, 1)))
    shape = (places, rotations(generator, COUNT), generator.uniform(0.05, 0.2, (COUNT, 3)))
    return Poses(field, shape, np.full(COUNT, MARGIN))


def bound(kind: str, size: Array) -> float:
    return float(size[:2].sum() if kind == "capsule" else np.linalg.norm(size))


@pytest.mark.parametrize(
    ("kind", "within"), representative_tuples([("box", 1e-5), ("cylinder", 1e-3), ("capsule", 1e-5)], 2)
)
def test_the_same_points_as_mujoco(kind: str, within: float) -> None:
    """One for each triangle that a shape is near, as far away, at the same place with the same normal."""
    poses = poses_above()
    found = CompiledField(CONVEX_PAIRS["height field", kind], TOP * HEIGHTS).points(poses)
    model = mujoco.MjModel.from_xml_string(f"""<mujoco>
      <asset><hfield name="ground" nrow="7" ncol="9" size="{HALF[0]} {HALF[1]} {TOP} {BASE}"/></asset>
      <worldbody><geom type="hfield" hfield="ground"/>
        <body><freejoint/><geom type="{kind}" size="1 1 1" margin="{MARGIN}"/></body></worldbody></mujoco>""")
    model.hfield_data[:], model.opt.ccd_tolerance, model.opt.ccd_iterations = HEIGHTS.ravel(), 1e-10, 200
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    total = 0
    for i, points in enumerate(found):
        place, rotation, size = (part[i] for part in poses.b)
        data.geom_xpos[1], data.geom_xmat[1], model.geom_size[1] = place, rotation.ravel(), size
        model.geom_rbound[1] = bound(kind, size)
        model.geom_aabb[1] = [0.0] * 3 + [bound(kind, size)] * 3
        mujoco.mj_collision(model, data)
        assert len(points) == data.ncon
        theirs = np.column_stack([data.contact.dist, data.contact.pos, data.contact.frame[:, :3]])
        total += len(points)
        for point in theirs:
            nearest = np.abs(points[:, :7] - point).max(axis=1).argmin() if len(points) else 0
            np.testing.assert_allclose(points[nearest, 0], point[0], rtol=0, atol=1e-7)
            np.testing.assert_allclose(points[nearest, 1:7], point[1:], rtol=0, atol=within)
    assert total > 2 * COUNT


def prism_depths(vertices: Array) -> list[float]:
    """Penetration depths of a polytope and each triangle above the base, by the hull of their Minkowski difference."""
    n_rows, n_columns = HEIGHTS.shape
    x, y = np.linspace(-HALF[0], HALF[0], n_columns), np.linspace(-HALF[1], HALF[1], n_rows)
    found = []
    for row in np.flatnonzero((y[:-1] <= vertices[:, 1].max()) & (y[1:] >= vertices[:, 1].min())).tolist():
        for column in np.flatnonzero((x[:-1] <= vertices[:, 0].max()) & (x[1:] >= vertices[:, 0].min())).tolist():
            for nodes in (((0, 0), (0, 1), (1, 1)), ((0, 0), (1, 1), (1, 0))):
                places = [(row + i, column + j) for i, j in nodes]
                top = np.array([[x[j], y[i], TOP * HEIGHTS[i, j]] for i, j in places])
                prism = np.vstack([top, top * [1.0, 1.0, 0.0] - [0.0, 0.0, BASE]])
                if top[:, 2].max() > vertices[:, 2].min():
                    hull = ConvexHull((prism[:, None] - vertices).reshape(-1, 3))
                    found.append(-float(hull.equations[:, 3].max()))
    return [depth for depth in found if depth > 0.0]


def test_depths_of_boxes_that_hardly_touch() -> None:
    """A fifth of a millimetre deep, as things at rest are: as deep as the Minkowski differences say, to rounding."""
    poses, count = poses_above(), 60
    first, second = ((a[:count], b[:count], c[:count]) for a, b, c in (poses.a, poses.b))
    poses = Poses(first, second, np.zeros(count))
    box = CompiledField(CONVEX_PAIRS["height field", "box"], TOP * HEIGHTS)
    places, turns, sizes = poses.b
    for _ in range(8):
        for i, points in enumerate(box.points(poses)):
            places[i, 2] += -2e-4 - (points[:, 0].min() if len(points) else 2e-2)
    shallow = 0
    for i, points in enumerate(box.points(poses)):
        depths = prism_depths(places[i] + box_corners(sizes[i]) @ turns[i].T)
        assert len(points) == len(depths)
        np.testing.assert_allclose(np.sort(-points[:, 0]), np.sort(depths), rtol=0, atol=1e-9)
        shallow += bool(depths) and max(depths) < 1e-3
    assert shallow > count / 2


def test_a_mesh_on_a_plane() -> None:
    """The deepest corner as MuJoCo, up to four points, and all four corners of a box that stands."""
    corners, pair = box_corners((0.5, 0.4, 0.3)), CONVEX_PAIRS["plane", "mesh"]
    listed = " ".join(map(str, corners.ravel()))
    model = mujoco.MjModel.from_xml_string(f"""<mujoco><asset><mesh name="m" vertex="{listed}"/></asset><worldbody>
      <geom type="plane" size="1 1 1"/><body><freejoint/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>""")
    corners = model.mesh_vert.astype(float)  # in the axes that MuJoCo chose
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    generator = np.random.default_rng(6)
    turned = rotations(generator, COUNT)
    turned[:50] = np.eye(3)
    lowest = (corners @ np.swapaxes(turned, 1, 2))[:, :, 2].min(axis=1)
    places = np.column_stack([generator.normal(size=(COUNT, 2)), -lowest - 10.0 ** generator.uniform(-4, -1, COUNT)])
    plane = (np.zeros((COUNT, 3)), np.tile(np.eye(3), (COUNT, 1, 1)), np.ones((COUNT, 3)))
    poses = Poses(plane, (places, turned, np.zeros((COUNT, 3))), np.zeros(COUNT))
    assert len(polyhedron(corners).faces) == 6
    for i, points in enumerate(Compiled(pair, meshes={"b": corners}).points(poses)):
        data.geom_xpos[1], data.geom_xmat[1] = places[i], turned[i].ravel()
        mujoco.mj_collision(model, data)
        assert len(points) == data.ncon <= pair.max_contacts
        np.testing.assert_allclose(np.sort(points[:, 0]), np.sort(data.contact.dist), rtol=0, atol=1e-9)
        assert i >= 50 or len(points) == 4
