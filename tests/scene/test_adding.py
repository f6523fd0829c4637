"""What can be put into a scene: plain bodies, meshes, terrain, and what they are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema import geometry
from kinema.description import PhysicsMaterial
from kit.robots.small_robots import lift, reacher

TETRAHEDRON = ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])

MUJOCO_BODIES = [
    (km.Box((0.2, 0.4, 0.6)), 'type="box" size="0.1 0.2 0.3"'),
    (km.Sphere(0.3), 'type="sphere" size="0.3"'),
    (km.Ellipsoid((0.1, 0.2, 0.3)), 'type="ellipsoid" size="0.1 0.2 0.3"'),
    (km.Capsule(0.1, 0.4), 'type="capsule" size="0.1 0.2"'),
    (km.Cylinder(0.1, 0.4), 'type="cylinder" size="0.1 0.2"'),
]


@pytest.mark.parametrize(("morph", "geom"), MUJOCO_BODIES, ids=[m.kind for m, _ in MUJOCO_BODIES])
def test_bodies_weigh_what_mujoco_says(morph: Any, geom: str) -> None:
    text = f'<mujoco><worldbody><body><freejoint/><geom {geom} density="700"/></body></worldbody></mujoco>'
    model = mujoco.MjModel.from_xml_string(text)
    own = km.Scene().add(morph, density=700).description.links[0].inertial
    assert own is not None
    assert own.mass == pytest.approx(model.body_mass[1], rel=1e-12)
    np.testing.assert_allclose(np.sort(np.diag(own.inertia)), np.sort(model.body_inertia[1]), rtol=1e-12)


def test_a_body_falls_unless_it_is_fixed_and_the_ground_never_does() -> None:
    scene = km.Scene()
    assert scene.add(km.Box((1, 1, 1))).n_dofs == 6
    assert scene.add(km.Box((1, 1, 1)), fixed=True).n_dofs == 0
    assert scene.add(km.Plane()).n_dofs == 0
    assert scene.add(km.Terrain(np.zeros((3, 3)), (2.0, 2.0))).n_dofs == 0
    with pytest.raises(km.KinemaError, match="a plane is always fixed"):
        scene.add(km.Plane(), fixed=False)
    assert [e.name for e in scene.entities] == ["box", "box_1", "plane", "terrain"]


def test_masses_and_scales() -> None:
    def mass(morph: Any, **how: Any) -> float:
        inertial = km.Scene().add(morph, **how).description.links[0].inertial
        assert inertial is not None
        return inertial.mass

    assert mass(km.Box((1, 1, 1))) == 1000.0
    assert mass(km.Box((1, 1, 1)), mass=3.0) == pytest.approx(3.0)
    assert mass(km.Box((1, 1, 1)), scale=0.5) == pytest.approx(125.0)
    assert mass(km.Sphere(1.0), scale=(1, 2, 3)) == pytest.approx(6 * mass(km.Sphere(1.0)))
    assert mass(km.Box((1, 1, 1)), material=PhysicsMaterial(density=20.0)) == pytest.approx(20.0)
    assert mass(km.Mesh(vertices=TETRAHEDRON[0], faces=TETRAHEDRON[1])) == pytest.approx(1000 / 6)


def test_a_mesh_is_added_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "corner.obj"
    vertices, faces = TETRAHEDRON
    lines = [f"v {x} {y} {z}" for x, y, z in vertices] + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
    file.write_text("\n".join(lines))
    body = km.Scene().add(file, scale=2.0).description.links[0].inertial
    assert body is not None
    assert body.mass == pytest.approx(8000 / 6)
    np.testing.assert_allclose(body.center, [0.5, 0.5, 0.5])


def test_friction_is_that_of_all_surfaces_and_the_description_stays_as_it_was() -> None:
    robot = km.Scene().add(km.Box((1, 1, 1))).description
    again = km.Scene().add(robot, friction=(0.3, 0.02), color=(1, 0, 0)).description
    surface = again.links[0].shapes[0].surface
    assert surface is not None
    assert (surface.dynamic_friction, surface.torsional_friction) == (0.3, 0.02)
    look = again.links[0].shapes[0].material
    assert look is not None
    assert look.color == (1.0, 0.0, 0.0, 1.0)
    assert robot.links[0].shapes[0].surface is None
    assert not km.Scene().add(robot, collision=False).description.links[0].collisions


@pytest.mark.parametrize(
    ("morph", "how", "message"),
    [
        (km.Box((1, 1)), {}, "Box: size: expected three finite numbers"),
        (km.Box((1, 1, -1)), {}, "Box: size: expected three positive lengths"),
        (km.Sphere("big"), {}, "Sphere: radius: expected a positive finite length"),  # type: ignore[arg-type]
        (km.Plane((0, 0, 0)), {}, "Plane: normal: expected a direction"),
        (km.Mesh("nowhere.stl"), {}, "Mesh: there is no file 'nowhere.stl'"),
        (km.Mesh(vertices=[[0, 0, 0]], faces=[[0, 0, 9]]), {}, "Mesh: the mesh given as arrays cannot be used"),
        (km.Terrain([[0.0]], (1.0, 1.0)), {}, "Terrain: .*2 rows"),
        (km.Terrain(np.zeros((2, 2))), {}, "Terrain: "),
        (km.Capsule(1, 1), {"scale": (1, 1, 2)}, "the scale of a capsule must be uniform"),
        (km.Box((1, 1, 1)), {"scale": 0.0}, "scale: expected one positive number"),
        (km.Box((1, 1, 1)), {"mass": 1.0, "density": 1.0}, "give one of the two"),
        (km.Box((1, 1, 1)), {"friction": (1, 1, 1, 1)}, "friction: expected"),
        (km.Box((1, 1, 1)), {"color": (300, 0, 0)}, "color: expected"),
        (km.Box((1, 1, 1)), {"quat": (1, 0, 0, 0), "euler": (0, 0, 0)}, "give one of the two orientations"),
        (lift(), {"density": 3.0}, "density: only for bodies such as km.Box"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(morph: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(km.KinemaError, match=message):
        km.Scene().add(morph, **how)


def test_angles_and_quaternions_turn_alike() -> None:
    scene = km.Scene(precision="double", quiet=True)
    half = np.pi / 4
    turned = scene.add(reacher(), euler=(0, 0, np.pi / 2), pos=(1, 2, 3))
    same = scene.add(reacher(), quat=(np.cos(half), 0, 0, np.sin(half)), pos=(1, 2, 3))
    scene.build(env_spacing=(2.0, 3.0))
    np.testing.assert_allclose(turned.get_links_pos(), same.get_links_pos(), atol=1e-15)
    np.testing.assert_allclose(turned.get_link("tip").get_pos()[0], [1, 2.8, 3], atol=1e-15)


def test_environments_are_shown_side_by_side_and_simulated_at_the_origin() -> None:
    scene = km.Scene(quiet=True)
    scene.add(lift())
    scene.build(5, env_spacing=(2.0, 3.0))
    assert scene.env_offsets.tolist() == [[-2, -1.5, 0], [0, -1.5, 0], [2, -1.5, 0], [-2, 1.5, 0], [0, 1.5, 0]]
    assert scene.summary().splitlines()[:2] == [
        "5 environments on cpu, single precision, dt 0.002 s (implicitfast), 0.0 MiB",
        "  lift  1 link, 1 degree of freedom",
    ]


def test_a_ball_on_a_slope_rolls_as_mujocos() -> None:
    """A scene put together from plain bodies is the scene of an MJCF file that says the same: 1e-10 in 150 steps."""
    text = """<mujoco><option integrator="implicitfast" tolerance="1e-15"/><worldbody>
    <geom type="plane" size="5 5 1" euler="0 20 0" friction="0.6"/>
    <body pos="0 0 0.12"><freejoint/><geom size="0.1" density="500" friction="0.4"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    scene = km.Scene(precision="double", quiet=True, iterations=100, ls_iterations=50)
    scene.add(km.Plane((np.sin(np.radians(20)), 0, np.cos(np.radians(20)))), friction=0.6)
    ball = scene.add(km.Sphere(0.1), pos=(0, 0, 0.12), density=500, friction=0.4)
    scene.build()
    scene.step(150)
    for _ in range(150):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(ball.get_qpos()[0], data.qpos, atol=1e-10)
    np.testing.assert_allclose(ball.get_qvel()[0], data.qvel, atol=1e-9)


def test_terrain_of_shapes_is_taken_as_it_is() -> None:
    ground = geometry.Terrain(np.arange(6.0).reshape(2, 3), (2.0, 1.0), 0.5)
    form: Any = km.Scene().add(km.Terrain(ground), scale=(1, 1, 2)).description.links[0].shapes[0].geometry
    np.testing.assert_array_equal(form.heights, 2 * ground.heights)
    assert (form.size, form.base) == ((2.0, 1.0), 1.0)


def test_many_fixed_bodies_by_themselves() -> None:
    """A scene without degrees of freedom, with as many shapes as scenes with collision rules have."""
    scene = km.Scene()
    for i in range(80):
        scene.add(km.Box((0.1, 0.1, 0.1)), pos=(i, 0, 0), fixed=True)
    scene.build()
    scene.step()
    np.testing.assert_array_equal(scene.entities[79].get_links_pos()[0], [[79.0, 0.0, 0.0]])
