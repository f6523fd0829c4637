"""Robots among many objects: collision rules, islands and Newton-CG with articulated trees, beside MuJoCo C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.dynamics.free_bodies import articulated_trees
from kinema.read import read

SHAPES = ('type="box" size=".1 .08 .06"', 'size=".08"', 'type="capsule" size=".05 .06"')


def quadruped() -> tuple[str, str]:
    """A floating trunk with four legs of two limited joints, one with dry friction, and its actuators."""
    legs = motors = ""
    pad = '<site name="pad" pos="0 0 -.2" size=".05"/>'
    for i, (x, y) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
        legs += f"""<body name="thigh{i}" pos="{0.2 * x} {0.12 * y} 0"><joint name="hip{i}" axis="0 1 0" range="-60 115"
        damping=".2" armature=".01" frictionloss=".1"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".025" mass=".8"/>
        <body name="shank{i}" pos="0 0 -.2"><joint name="knee{i}" axis="0 1 0" range="-140 -17" damping=".2"/>
        <geom type="capsule" fromto="0 0 0 0 0 -.2" size=".02" mass=".2"/>{pad if i == 0 else ""}</body></body>"""
        motors += f'<position joint="hip{i}" kp="60" kv="2"/><position joint="knee{i}" kp="60" kv="2"/>'
    trunk = f"""<body name="trunk" pos="0 0 .4"><freejoint/><site name="imu" pos=".1 0 .05"/>
    <site name="roof" type="box" size=".3 .2 .1"/>
    <geom type="box" size=".25 .1 .06" mass="6"/>{legs}</body>"""
    return trunk, motors


def arm() -> tuple[str, str, str]:
    """An arm of four joints, a gripper whose fingers are coupled, its actuators, and the coupling."""
    text, motors = '<body name="base" pos=".45 0 0"><geom type="cylinder" size=".06 .05" pos="0 0 .06"/>', ""
    for i, axis in enumerate(("0 0 1", "0 1 0", "0 1 0", "1 0 0")):
        text += f"""<body name="link{i}" pos="0 0 .15">
        <joint name="joint{i}" axis="{axis}" range="-160 160" damping=".5" armature=".02"/>
        <geom type="capsule" fromto="0 0 0 0 0 .12" size=".035" mass=".6"/>"""
        motors += f'<position joint="joint{i}" kp="80" kv="4"/>'
    for i, sign in enumerate((1, -1)):
        text += f"""<body name="finger{i}" pos="{0.05 * sign} 0 .2">
        <joint name="slide{i}" type="slide" axis="{-sign} 0 0" range="0 .04" damping="2"/>
        <geom type="box" size=".008 .02 .04" mass=".05"/></body>"""
    return text + 5 * "</body>", motors, '<joint joint1="slide0" joint2="slide1"/>'


def objects(count: int, rng: np.random.Generator, layers: int = 2) -> str:
    """Boxes, balls and capsules in layers around the robots, two of them on the trunk."""
    text, columns = "", int(np.ceil(np.sqrt(count / layers))) + 2
    places = [(0.26 * (i - columns / 2), 0.26 * (j - columns / 2)) for i in range(columns) for j in range(columns)]
    places = [(x, y) for x, y in places if abs(y) > 0.25 or x > 0.65 or x < -0.4]
    for i in range(count):
        layer, place = divmod(i, len(places))
        x, y = (-0.1 + 0.2 * i, 0.0) if i < 2 else places[place]
        z = 0.55 if i < 2 else 0.1 + 0.2 * layer
        turn = rng.normal(size=4) * (1.0, 0.1, 0.1, 0.1) + (2.0, 0.0, 0.0, 0.0)
        text += f"""<body name="object{i}" pos="{x:.4f} {y:.4f} {z:.4f}" quat="{turn[0]} {turn[1]} {turn[2]} {turn[3]}">
        <freejoint/><geom name="shape{i}" {SHAPES[i % 3]} mass="1"/></body>"""
    return text


def scene_text(count: int, options: str = "", more: str = "", equalities: str = "") -> str:
    """A quadruped and an arm among objects on a plane."""
    (trunk, motors), (base, more_motors, coupling) = quadruped(), arm()
    return f"""<mujoco><option timestep=".002" integrator="implicitfast" {options}/><worldbody>
    <geom name="floor" type="plane" size="0 0 1"/>{trunk}{base}{objects(count, np.random.default_rng(0))}</worldbody>
    <actuator>{motors}{more_motors}</actuator><equality>{coupling}{equalities}</equality>{more}</mujoco>"""


def written(folder: Path, text: str) -> Path:
    """The text in a file."""
    (folder / "scene.xml").write_text(text, encoding="utf-8")
    return folder / "scene.xml"


def built_scene(file: Path, broad_phase: str = "auto", **options: Any) -> tuple[km.Scene, Any]:
    """A scene of one environment in double precision, and its entity."""
    scene = km.Scene(quiet=True, precision="double", broad_phase=broad_phase, **options)
    entity = scene.add(km.read(file))
    scene.build(n_envs=1)
    return scene, entity


def mujoco_model(file: Path) -> mujoco.MjModel:
    """The model of a file in MuJoCo C, with a solver that converges to rounding errors."""
    model = mujoco.MjModel.from_xml_path(str(file))
    model.opt.tolerance, model.opt.iterations = 0.0, 200
    model.opt.ls_tolerance, model.opt.ls_iterations = 1e-10, 100
    return model


def mujoco_states(model: mujoco.MjModel, steps: tuple[int, ...]) -> list[mujoco.MjData]:
    """States of MuJoCo C after some numbers of steps with random controls."""
    rng, states, data = np.random.default_rng(1), [], mujoco.MjData(model)
    for count in steps:
        data.ctrl[:] += 0.3 * rng.normal(size=model.nu)
        mujoco.mj_step(model, data, count)
        mujoco.mj_forward(model, data)
        state = mujoco.MjData(model)
        mujoco.mj_copyData(state, model, data)
        states.append(state)
    return states


def enter(entity: Any, data: mujoco.MjData) -> None:
    """Set coordinates, velocities and controls of an entity."""
    entity.set_qpos(data.qpos)
    entity.set_qvel(data.qvel)
    entity.control(data.ctrl)


def contact_forces(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    """Sum of the contact forces on each body, in the world frame, (n_bodies, 3)."""
    result, force = np.zeros((model.nbody, 3)), np.zeros(6)
    for i, contact in enumerate(data.contact):
        mujoco.mj_contactForce(model, data, i, force)
        in_world = contact.frame.reshape(3, 3).T @ force[:3]
        result[model.geom_bodyid[contact.geom1]] -= in_world
        result[model.geom_bodyid[contact.geom2]] += in_world
    return result


# -------------------------------------------------------------------------------------------------------- beside MuJoCo


@pytest.mark.slow("compiles a scene of two robots and thirty objects")
@pytest.mark.parametrize("cone", ["pyramidal", pytest.param("elliptic", marks=pytest.mark.exhaustive)])
def test_accelerations_and_forces_are_those_of_mujoco(tmp_path: Path, cone: str) -> None:
    """Limits, dry friction, coupled fingers, actuators, and contacts of robots with objects, floor and themselves."""
    sensors = """<sensor><accelerometer site="imu"/><jointactuatorfrc joint="hip0"/><touch site="roof"/>
    <force site="imu"/><torque site="pad"/><contact body1="trunk" reduce="netforce" data="found force torque"/>
    <contact subtree1="trunk" geom2="floor" reduce="maxforce" num="2" data="found force dist normal"/>
    <contact body2="trunk" reduce="mindist" data="found dist pos"/></sensor>"""
    file = written(tmp_path, scene_text(30, f'cone="{cone}"', sensors))
    model = mujoco_model(file)
    scene, entity = built_scene(file)
    assert scene.built.model.has_pair_rules
    for data in mujoco_states(model, (30, 100, 150)):
        enter(entity, data)
        np.testing.assert_allclose(
            entity.get_links_net_contact_force()[0], contact_forces(model, data)[1:], rtol=0.0, atol=1e-4
        )
        after = mujoco.MjData(model)
        mujoco.mj_copyData(after, model, data)
        mujoco.mj_step(model, after)
        scene.step()
        change = after.qvel - data.qvel
        np.testing.assert_allclose(
            entity.get_qvel()[0] - data.qvel, change, rtol=0.0, atol=1e-6 * np.linalg.norm(change)
        )
    on_robots = {*range(1, 16)}
    bodies = [{int(model.geom_bodyid[g]) for g in (c.geom1, c.geom2)} for c in data.contact]
    assert sum(len(x & on_robots) == 1 and 0 not in x for x in bodies) >= 4  # a robot and an object
    mujoco.mj_forward(model, after)
    enter(entity, after)
    values = scene.built.engine.fields.sensors.sensordata.numpy()[:, 0]
    assert np.count_nonzero(after.sensordata) > 25
    np.testing.assert_allclose(values, after.sensordata, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------------------------------- beside a table of pairs


def random_robot(rng: np.random.Generator, name: str, place: str) -> tuple[str, str, str]:
    """A chain of hinges, slides and balls on a base of a random kind, its actuators, and perhaps a loop."""
    base = (
        "<freejoint/>",
        '<joint type="slide" axis="1 0 0" damping="1" frictionloss=".5"/>',
        '<joint type="ball"/>',
        "",
    )
    text = f'<body name="{name}" pos="{place}">{rng.choice(base)}<geom type="box" size=".07 .07 .05" mass="1.5"/>'
    motors, n_links = "", int(rng.integers(2, 5))
    for i in range(n_links):
        axis = ("1 0 0", "0 1 0", "0 0 1")[rng.integers(3)]
        joints = (
            f'<joint name="{name}{i}" axis="{axis}" range="-60 60" damping=".2" armature=".02" frictionloss=".1"/>',
            f'<joint name="{name}{i}" type="slide" axis="{axis}" range="-.05 .1" damping="3" armature=".1"/>',
            f'<joint name="{name}{i}" type="ball" damping=".1" armature=".02"/>',
        )
        kind = int(rng.integers(3))
        place = f"{0.1 * rng.integers(-1, 2)} .1 {0.08 * rng.integers(-1, 2)}"
        text += f"""<body name="{name}link{i}" pos="{place}">{joints[kind]}
        <geom type="capsule" fromto="0 0 0 0 .1 .03" size=".03" mass=".4" condim="{rng.choice([1, 3, 4, 6])}"/>"""
        motors += f'<position joint="{name}{i}" kp="40" kv="2"/>' if kind < 2 else ""
    loop = f'<connect body1="{name}link{n_links - 1}" body2="{name}" anchor="0 .1 0"/>' if rng.random() < 0.5 else ""
    return text + "</body>" * (n_links + 1), motors, loop


def random_scene(seed: int) -> str:
    """One to three robots among objects, some of which equality constraints join with a robot and with each other."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(6, 12))
    robots = [
        random_robot(rng, f"r{i}", f"{0.5 * i} {rng.uniform(-0.3, 0.1):.3f} .35") for i in range(rng.integers(1, 4))
    ]
    bodies, motors, equalities = ("".join(x) for x in zip(*robots, strict=True))
    equalities += '<weld body1="r0link0" body2="object1"/>' if rng.random() < 0.7 else ""
    equalities += '<connect body1="object2" body2="object3" anchor=".1 0 0"/>' if rng.random() < 0.5 else ""
    cone, integrator = rng.choice(["elliptic", "pyramidal"]), rng.choice(["implicitfast", "Euler", "implicit"])
    return f"""<mujoco><option timestep=".002" integrator="{integrator}" cone="{cone}"/><worldbody>
    <geom type="plane" size="0 0 1"/>{bodies}{objects(count, rng)}</worldbody><actuator>{motors}</actuator>
    <equality>{equalities}</equality></mujoco>"""


@pytest.mark.exhaustive
@pytest.mark.slow("compiles two scenes of robots and objects")
@pytest.mark.parametrize("seed", range(40))
def test_same_motion_as_with_a_table(tmp_path: Path, seed: int) -> None:
    """Coordinates, velocities, contacts and forces after some steps; and the same bits again from a saved state."""
    file, found = written(tmp_path, random_scene(seed)), []
    for broad_phase in ("cells", "all"):
        scene, entity = built_scene(file, broad_phase, codegen="loops")
        assert scene.built.model.has_pair_rules is (broad_phase == "cells")
        saved = scene.get_state()
        scene.step(120)
        found.append(
            (entity.get_qpos(), entity.get_qvel(), scene.get_contacts().n, entity.get_links_net_contact_force())
        )
        scene.set_state(saved)
        scene.step(120)
        np.testing.assert_array_equal(entity.get_qvel(), found[-1][1])
    assert found[0][2] > 3
    for a, b, tolerance in zip(*found, (1e-6, 1e-4, 0.0, 1e-2), strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=tolerance)


@pytest.mark.exhaustive
@pytest.mark.slow("compiles two scenes of robots and objects")
def test_robots_and_objects_that_are_placed_and_removed(tmp_path: Path) -> None:
    """Objects placed on a robot, and a robot removed and placed again, in one of two environments."""
    trunk, motors = quadruped()
    file = written(tmp_path, f"<mujoco><worldbody>{trunk}</worldbody><actuator>{motors}</actuator></mujoco>")
    found = []
    for broad_phase in ("cells", "all"):
        scene = km.Scene(quiet=True, precision="double", broad_phase=broad_phase, codegen="loops")
        scene.add(km.Plane())
        robots = [scene.add(file), scene.add(file, pos=(1, 0, 0))]
        crate = scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0.1, 0, 0.6))
        ball = scene.add(km.Sphere(0.06), pos=(-0.1, 0, 0.6))
        scene.build(2, room={crate: 3})
        assert scene.built.model.has_pair_rules is (broad_phase == "cells")
        scene.step(40)
        crates = [scene.spawn(crate, pos=(0.17 * i, 0.05, 0.8 + 0.03 * i)) for i in range(2)]
        scene.step(60)
        scene.remove(robots[1], envs_idx=[1])
        scene.remove(ball)
        scene.step(40)
        crates.append(scene.spawn(crate, pos=(0.04, 0.02, 0.9), envs_idx=[0]))
        scene.spawn(robots[1], pos=(1, 1, 0.1), envs_idx=[1])
        scene.step(40)
        found.append(np.concatenate([x.get_qpos() for x in (*robots, crate, *crates)], axis=1))
        assert scene.get_contacts().n.min() > 6
    np.testing.assert_allclose(*found, rtol=0.0, atol=1e-6)


def named_pairs(model: Any) -> set[frozenset[str]]:
    """Pairs of geoms that may collide, by their poses and names, as both models number geoms in their own order."""
    columns = zip(model.geoms.names, model.geoms.frame_idx, model.geoms.pos, strict=True)
    names = [f"{name} {frame} {position.tolist()}" for name, frame, position in columns]
    return {frozenset((names[a], names[b])) for a, b in model.geom_pairs().tolist()}


def test_rules_admit_the_pairs_of_the_table(tmp_path: Path) -> None:
    """Links do not collide with their parents; all others, and the objects, do."""
    spec = EntitySpec(name="scene", description=read(written(tmp_path, scene_text(6))))
    rules = build_model([spec], with_contacts=True, min_ruled_geoms=0)
    assert rules.has_pair_rules
    assert named_pairs(rules) == named_pairs(build_model([spec], with_contacts=True))


OVERLAPPING_URDF = """<robot name="r"><link name="a">{0}</link><link name="b">{0}</link><link name="c">{0}</link>
<link name="d">{0}</link><joint name="1" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>
<origin xyz="0 0 .06"/><limit lower="-1" upper="1" effort="9" velocity="9"/></joint><joint name="2" type="revolute">
<parent link="b"/><child link="c"/><origin xyz="0 0 .03"/><axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="9"
velocity="9"/></joint><joint name="3" type="revolute"><parent link="c"/><child link="d"/><origin xyz="0 0 .3"/>
<axis xyz="0 0 1"/><limit lower="-1" upper="1" effort="9" velocity="9"/></joint></robot>"""
"""Links a and c overlap."""


def test_links_that_overlap_do_not_collide(tmp_path: Path) -> None:
    """In a format without collision filters, as with a table of pairs."""
    shape = """<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><box size=".1 .1 .1"/></geometry></collision>"""
    (tmp_path / "robot.urdf").write_text(OVERLAPPING_URDF.format(shape), encoding="utf-8")
    spec = EntitySpec(name="robot", description=read(tmp_path / "robot.urdf"))
    rules, table = (build_model([spec], with_contacts=True, min_ruled_geoms=x) for x in (0, None))
    assert rules.has_pair_rules
    assert len(rules.geom_pairs()) == 2  # a and d, b and d
    assert named_pairs(rules) == named_pairs(table)


# --------------------------------------------------------------------------------------------------------- which scenes


def test_articulated_trees(tmp_path: Path) -> None:
    """Robots, and objects with equality constraints, limits, dry friction or actuators; all others are free bodies."""
    pinned = scene_text(
        6, equalities='<weld body1="object2" body2="object3"/><connect body1="object4" anchor="0 0 0"/>'
    )
    spec = EntitySpec(name="scene", description=read(written(tmp_path, pinned)))
    model = build_model([spec], with_contacts=True, min_ruled_geoms=0)
    assert articulated_trees(model).tolist() == [True, True, False, False, True, True, True, False]


@pytest.mark.parametrize(
    ("count", "more", "options", "expected"),
    [
        (20, "", {}, True),
        (19, "", {}, False),
        (19, "", {"broad_phase": "cells"}, True),
        (20, "", {"sleep": True}, False),
        (20, "", {"noslip_iterations": 2}, False),
        (20, '<sensor><contact body1="trunk" reduce="none"/></sensor>', {}, False),
        (20, '<sensor><touch site="imu"/><gyro site="imu"/></sensor>', {}, True),
    ],
)
def test_which_scenes_have_rules(
    tmp_path: Path, count: int, more: str, options: dict[str, Any], expected: bool
) -> None:
    """Robots beside at least twenty shapes of free bodies, without sleep and sensors that list contacts in order."""
    trunk, motors = quadruped()
    text = f"""<mujoco><worldbody><geom type="plane" size="0 0 1"/>{trunk}{objects(count, np.random.default_rng(0))}
    </worldbody><actuator>{motors}</actuator>{more}</mujoco>"""
    scene = km.Scene(quiet=True, **options)
    scene.add(km.read(written(tmp_path, text)))
    scene.build(n_envs=1)
    assert scene.built.model.has_pair_rules is expected
