"""Spatial queries of a scene: distances and overlaps agree with MuJoCo, in every environment."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
import pytest

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
        both.scene.distance("box", far)


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
