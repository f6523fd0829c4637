"""Spatial queries of a scene: rays, distances and overlaps agree with MuJoCo, in every environment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import pytest
import trimesh

import kinema as km

N_ENVS = 6
BODIES = ("box", "plank", "pill", "ball")
MJCF = """<mujoco><worldbody>
  <geom name="ground" type="plane" size="4 4 .1"/>
  <body name="box">
    <freejoint/><geom name="box" type="box" size=".1 .15 .2"/><geom name="knob" size=".05" pos="0 0 .25"/>
  </body>
  <body name="plank"><freejoint/><geom name="plank" type="box" size=".3 .1 .02" pos=".1 0 0"/></body>
  <body name="pill"><freejoint/><geom name="pill" type="capsule" size=".05 .2"/></body>
  <body name="ball"><freejoint/><geom name="ball" size=".1"/></body>
</worldbody></mujoco>"""


@dataclass
class Both:
    """A scene and MuJoCo's states of its environments."""

    scene: km.Scene
    bodies: km.Entity
    model: mujoco.MjModel
    states: list[mujoco.MjData]

    def expected(self, env: int, a: list[str], b: list[str]) -> tuple[float, np.ndarray, str, str]:
        """MuJoCo's smallest distance of two sets of geoms, its end points and the two geoms."""
        results = []
        for first in a:
            for second in b:
                ids = [mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_GEOM, x) for x in (first, second)]
                ends = np.zeros(6)
                distance = mujoco.mj_geomDistance(self.model, self.states[env], *ids, 10.0, ends)
                results.append((distance, ends, first, second))
        return min(results, key=lambda x: x[0])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """Bodies at random poses in each environment, apart and overlapping."""
    path = tmp_path_factory.mktemp("queries") / "bodies.xml"
    path.write_text(MJCF)
    scene = km.Scene(quiet=True)
    bodies = scene.add(km.read(path))
    scene.add(km.Box((0.2, 0.2, 0.2)), fixed=True, pos=(5.0, 0.0, 0.1), name="far")
    scene.build(n_envs=N_ENVS)
    rng = np.random.default_rng(3)
    qpos = np.zeros((N_ENVS, 4, 7))
    qpos[..., :3] = rng.uniform((-0.4, -0.4, 0.1), (0.4, 0.4, 0.6), (N_ENVS, 4, 3))
    qpos[..., 3:] = rng.normal(size=(N_ENVS, 4, 4))
    qpos[..., 3:] /= np.linalg.norm(qpos[..., 3:], axis=-1, keepdims=True)
    bodies.set_qpos(qpos.reshape(N_ENVS, -1))
    model = mujoco.MjModel.from_xml_string(MJCF)
    states = [mujoco.MjData(model) for _ in range(N_ENVS)]
    for state, q in zip(states, qpos.reshape(N_ENVS, -1), strict=True):
        state.qpos = q
        mujoco.mj_kinematics(model, state)
    return Both(scene, bodies, model, states)


@pytest.mark.parametrize(
    ("a", "b", "geoms"),
    [
        ("box", "plank", (["box", "knob"], ["plank"])),
        ("plank", "ball", (["plank"], ["ball"])),
        ("pill", "ball", (["pill"], ["ball"])),
    ],
)
def test_distance_of_links(both: Both, a: str, b: str, geoms: tuple[list[str], list[str]]) -> None:
    """The signed distance, the closest points and the closest geoms of two links are MuJoCo's in each environment."""
    result = both.scene.distance(both.bodies.get_link(a), both.bodies.get_link(b))
    for env in range(N_ENVS):
        distance, ends, first, second = both.expected(env, *geoms)
        assert result.distance[env] == pytest.approx(distance, abs=2e-6)
        assert (result.a.geom_name[env], result.b.geom_name[env]) == (first, second)
        assert (result.a.link_name[env], result.b.link_name[env]) == (a, b)
        if distance > 0.0:
            np.testing.assert_allclose(np.concatenate([result.point_a[env], result.point_b[env]]), ends, atol=1e-5)
    backwards = both.scene.distance(both.bodies.get_link(b), both.bodies.get_link(a), envs_idx=[2, 4])
    np.testing.assert_allclose(backwards.distance, result.distance[[2, 4]], atol=1e-6)
    np.testing.assert_allclose(backwards.point_a, result.point_b[[2, 4]], atol=1e-5)


def test_selections_and_limits_of_distance(both: Both) -> None:
    """Links and geoms are selected by name; beyond the largest distance there is none; nothing selected is an error."""
    bodies, far = both.bodies, both.scene.get_entity("far")
    knob = both.scene.distance(bodies, bodies, geom_a="knob", link_b=["plank", "ball"])
    for env in range(N_ENVS):
        assert knob.distance[env] == pytest.approx(both.expected(env, ["knob"], ["plank", "ball"])[0], abs=2e-6)
    assert set(knob.a.geom.tolist()) == {bodies.geom_names.index("knob")}
    to_far = both.scene.distance(bodies, far, link_a="ball", max_distance=0.5)
    assert np.isinf(to_far.distance).all()
    assert np.isnan(to_far.point_a).all()
    assert (to_far.a.geom == -1).all()
    assert set(to_far.b.geom_name) == {""}
    assert (both.scene.distance(bodies, far, link_a="ball").b.entity_name == "far").all()
    with pytest.raises(km.KinemaError, match="nothing"):
        both.scene.distance(bodies, far, geom_a="nothing")
    with pytest.raises(km.KinemaError, match="expected an entity or a link"):
        both.scene.distance("box", far)  # type: ignore[arg-type]


def test_overlaps_of_a_query_shape(both: Both) -> None:
    """The geoms within a margin of a ball are those at that distance from its centre, closest first."""
    centers = np.linspace((-0.3, -0.2, 0.1), (0.3, 0.2, 0.5), N_ENVS)
    radius, margin = 0.12, 0.05
    result = both.scene.overlaps(km.Sphere(radius), centers, margin=margin)
    names = ["ground", "box", "knob", "plank", "pill", "ball"]
    for env, center in enumerate(centers):
        distances = {name: _distance_to_point(both, env, name, center) - radius for name in names}
        inside = sorted((x, name) for name, x in distances.items() if x < margin)
        assert result.geom_name[env, : result.n[env]].tolist() == [name for _, name in inside]
        np.testing.assert_allclose(result.distance[env, : result.n[env]], [x for x, _ in inside], atol=1e-5)
        assert not result.valid_mask[env, result.n[env] :].any()
    assert result.n.max() >= 2
    without = both.scene.overlaps(km.Sphere(radius), centers, margin=margin, exclude=both.bodies)
    assert without.n.tolist() == [0] * N_ENVS
    slab = both.scene.overlaps(km.Box((0.1, 0.1, 0.1)), (5.15, 0.0, 0.1), (1.0, 0.0, 0.0, 1.0), envs_idx=[1])
    assert slab.entity_name.tolist() == [["far"]]
    assert slab.n.tolist() == [1]
    with pytest.raises(km.KinemaError, match="overlaps: expected a box"):
        both.scene.overlaps(km.Plane(), (0.0, 0.0, 0.0))


ELEVATIONS = " ".join(f"{x:.3f}" for x in np.random.default_rng(1).uniform(0.0, 1.0, 80))
TARGETS = f"""<mujoco><asset>
  <mesh name="stone" vertex="0 0 0 .3 0 0 0 .25 0 0 0 .4 .2 .2 .1 .1 .3 .2"/>
  <hfield name="hills" nrow="8" ncol="10" size=".6 .5 .3 .2" elevation="{ELEVATIONS}"/>
</asset><worldbody>
  <geom name="ground" type="plane" size="0 0 1" pos="0 0 -1"/>
  <geom name="hills" type="hfield" hfield="hills" pos="0 0 -.9"/>
  <body name="0"><freejoint/><geom name="box" type="box" size=".1 .15 .2"/></body>
  <body name="1" pos="1 0 .3"><freejoint/><geom name="ellipsoid" type="ellipsoid" size=".1 .2 .3"/></body>
  <body name="2" pos="-1 0 .3"><freejoint/><geom name="cylinder" type="cylinder" size=".15 .3"/></body>
  <body name="3" pos="0 1 .3"><freejoint/><geom name="capsule" type="capsule" size=".1 .3"/></body>
  <body name="4" pos="0 -1 .3"><freejoint/><geom name="stone" type="mesh" mesh="stone"/></body>
  <body name="5" pos="1 1 .3"><freejoint/><geom name="ball" size=".3"/></body>
</worldbody></mujoco>"""


def test_rays_hit_what_mujoco_hits(tmp_path: Path) -> None:
    """Distances, normals, positions and geoms of rays at all geom types are those of `mj_ray` in each environment."""
    path = tmp_path / "targets.xml"
    path.write_text(TARGETS)
    scene = km.Scene(quiet=True)
    targets = scene.add(km.read(path))
    scene.build(n_envs=2)
    model = mujoco.MjModel.from_xml_string(TARGETS)
    rng = np.random.default_rng(0)
    qpos = np.tile(model.qpos0, (2, 1))
    for quat in (qpos[:, i : i + 4] for i in range(3, qpos.shape[1], 7)):
        quat[:] = rng.normal(size=(2, 4))
        quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    targets.set_qpos(qpos)
    centers = qpos[0].reshape(-1, 7)[:, :3]
    aims = np.concatenate([np.repeat(centers, 12, axis=0), rng.uniform((-1, -1, -1), (1, 1, 0), (60, 3))])
    origins = rng.uniform((-2.0, -2.0, -0.5), (2.0, 2.0, 1.5), aims.shape)
    directions = aims + rng.normal(scale=0.08, size=aims.shape) - origins
    hits = scene.cast_rays(origins, directions)
    for env in range(2):
        state = mujoco.MjData(model)
        state.qpos = qpos[env]
        mujoco.mj_kinematics(model, state)
        for i, (origin, direction) in enumerate(zip(origins, directions, strict=True)):
            geom, normal = np.zeros(1, np.int32), np.zeros(3)
            unit = direction / np.linalg.norm(direction)
            distance = mujoco.mj_ray(model, state, origin, unit, None, True, -1, geom, normal)
            if distance < 0.0:
                assert np.isinf(hits.distance[env, i])
                assert hits.geom[env, i] == hits.link[env, i] == hits.entity[env, i] == -1
                continue
            assert hits.geom_name[env, i] == model.geom(geom[0]).name
            assert hits.distance[env, i] == pytest.approx(distance, abs=1e-5)
            np.testing.assert_allclose(hits.normal[env, i], normal, atol=1e-4)
            np.testing.assert_allclose(hits.position[env, i], origin + distance * unit, atol=1e-5)
    assert set(hits.geom_name.ravel()) >= {model.geom(i).name for i in range(model.ngeom)}
    near = scene.cast_rays(origins, directions, max_distance=1.0, exclude=targets.get_link("5"), envs_idx=[1])
    is_kept = (hits.distance[1] <= 1.0) & (hits.geom_name[1] != "ball")
    np.testing.assert_allclose(near.distance[0, is_kept], hits.distance[1, is_kept], atol=1e-6)
    assert near.distance[0][np.isfinite(near.distance[0])].max() <= 1.0
    assert "ball" not in near.geom_name
    one = scene.cast_rays((0.0, 0.0, 5.0), [[0.0, 0.0, -2.0], [0.0, 0.0, 1.0]], envs_idx=[0])
    assert np.isfinite(one.distance).tolist() == [[True, False]]
    with pytest.raises(km.KinemaError, match="cast_rays: 2 origins and 3 directions"):
        scene.cast_rays(np.zeros((2, 3)), np.ones((3, 3)))
    with pytest.raises(km.KinemaError, match="not all zero"):
        scene.cast_rays((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))


def test_rays_at_the_centre_hit_the_near_side() -> None:
    """Where a geom touches its bounding sphere: balls from everywhere, others along their longest axis."""
    scene = km.Scene(contacts=False, quiet=True)
    shapes = [km.Sphere(0.3), km.Capsule(0.1, 0.6), km.Ellipsoid((0.1, 0.2, 0.5)), km.Sphere(7.1)]
    longest = [0.3, 0.4, 0.5, 7.1]
    bodies = [scene.add(shape, fixed=True, pos=(20.0 * i, 0.1, 0.3)) for i, shape in enumerate(shapes)]
    scene.build()
    rng = np.random.default_rng(0)
    for body, half in zip(bodies, longest, strict=True):
        directions = rng.normal(size=(100, 3)) if half in (0.3, 7.1) else np.outer(rng.normal(size=100), (0, 0, 1))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        distances = rng.uniform(1.001, 3.0, 100) * half
        hits = scene.cast_rays(body.get_pos()[0] - distances[:, None] * directions, directions)
        np.testing.assert_allclose(hits.distance[0], distances - half, atol=3e-6 * max(half, 1.0))
        np.testing.assert_allclose(hits.normal[0], -directions, atol=1e-4)


def test_geoms_that_collide_with_nothing() -> None:
    """Queries see static geoms, also in scenes without contacts."""
    scene = km.Scene(contacts=False, quiet=True)
    box = scene.add(km.Box((1.0, 1.0, 1.0)), fixed=True)
    ball = scene.add(km.Sphere(0.1), fixed=True, pos=(1.0, 0.0, 0.0))
    scene.build()
    hits = scene.cast_rays([[-5.0, 0.0, 0.0], [1.0, 0.0, 4.0]], [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    np.testing.assert_allclose(hits.distance[0], [4.5, 3.9], atol=1e-6)
    assert hits.entity_name[0].tolist() == [box.name, ball.name]
    assert scene.distance(box, ball).distance[0] == pytest.approx(0.4, abs=1e-6)


@pytest.mark.slow("samples a signed distance field")
def test_rays_at_a_signed_distance_field(tmp_path: Path) -> None:
    """Rays hit a ring as they hit its triangles, up to a fraction of a cell of its signed distance field."""
    ring = trimesh.creation.torus(0.3, 0.1)
    ring.export(tmp_path / "ring.stl")
    scene = km.Scene(quiet=True)
    scene.add(km.Mesh(tmp_path / "ring.stl"), fixed=True, nonconvex="sdf")
    scene.build()
    rng = np.random.default_rng(0)
    origins = rng.normal(size=(400, 3))
    origins *= rng.uniform(0.6, 5.0, (400, 1)) / np.linalg.norm(origins, axis=1, keepdims=True)
    directions = rng.uniform((-0.4, -0.4, -0.1), (0.4, 0.4, 0.1), (400, 3)) - origins
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    hits = scene.cast_rays(origins, directions)
    points, rays, _ = ring.ray.intersects_location(origins, directions)
    expected = np.full(400, np.inf)
    np.minimum.at(expected, rays, np.linalg.norm(points - origins[rays], axis=1))
    both = np.isfinite(expected) & np.isfinite(hits.distance[0])
    assert np.count_nonzero(both) >= 0.98 * np.count_nonzero(np.isfinite(expected)) > 200
    error = np.abs(hits.distance[0, both] - expected[both])
    assert np.median(error) < 5e-4
    assert np.quantile(error, 0.95) < 2e-3


def _distance_to_point(both: Both, env: int, name: str, point: np.ndarray) -> float:
    """Signed distance of a geom from a point, in closed form."""
    geom = mujoco.mj_name2id(both.model, mujoco.mjtObj.mjOBJ_GEOM, name)
    state, size = both.states[env], both.model.geom_size[geom]
    local = state.geom_xmat[geom].reshape(3, 3).T @ (point - state.geom_xpos[geom])
    match both.model.geom_type[geom]:
        case mujoco.mjtGeom.mjGEOM_PLANE:
            return float(local[2])
        case mujoco.mjtGeom.mjGEOM_BOX:
            outside = np.abs(local) - size
            return float(np.linalg.norm(np.maximum(outside, 0.0)) + min(outside.max(), 0.0))
        case mujoco.mjtGeom.mjGEOM_CAPSULE:
            along = np.clip(local[2], -size[1], size[1])
            return float(np.linalg.norm(local - (0, 0, along)) - size[0])
        case _:
            return float(np.linalg.norm(local) - size[0])
