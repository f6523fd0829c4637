"""Features of scenes on a GPU: the same numbers as on the CPU, in single precision.

Each test compares a short motion or a set of readings in several environments, which differ.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.ir import separate_partitions
from kinema.runtime import compilation, find_device
from kit.assets import EXAMPLES
from kit.spawned import CRAWLER

from ..dynamics.test_servos import ROBOT, SERVOS
from ..sensors.test_added_sensors import ADDED, ARM
from .test_attachments import CONTROL, GANTRY, PICKER
from .test_own_constraints import WELDED
from .test_spatial_queries import TARGETS

GPU = "cuda:0"
N_ENVS = 5
Readings = dict[str, Any]
"""Quantity -> values of all environments."""


@pytest.fixture(scope="module", autouse=True)
def _gpu() -> None:
    try:
        find_device(GPU)
    except km.KinemaError:
        pytest.skip("there is no GPU here")


def written(folder: Path, text: str) -> Path:
    """File with the text of a model."""
    file = folder / "model.xml"
    file.write_text(text, encoding="utf-8")
    return file


def attachments(folder: Path, **how: Any) -> Readings:
    """One kind of attachment in each environment but the last, and a weld that breaks."""
    scene = km.Scene(quiet=True, contacts=False, **how)
    robot = scene.add(written(folder, GANTRY.format(extra="", contact="disable")))
    kinds = ("weld", "ball", "rod", "rope")
    for kind in kinds:
        scene.reserve_attachments(robot, "hand", [(robot, "box")], kind=kind)
    scene.build(N_ENVS)
    options: list[dict[str, Any]] = [{}, {}, {"pos_a": [0.01, 0.0, -0.02]}, {"length": 0.09}]
    handles = [
        scene.attach(robot, robot, link_a="hand", link_b="box", kind=kind, envs_idx=i, **option)
        for i, (kind, option) in enumerate(zip(kinds, options, strict=True))
    ]
    weak = scene.attach(robot, robot, link_a="hand", link_b="box", envs_idx=4, break_force=1.0)
    robot.control(CONTROL)
    scene.step(40)
    found = {f"{kind} force": handle.get_force() for kind, handle in zip(kinds, handles, strict=True)}
    found |= {f"{kind} holds": handle.is_attached() for kind, handle in zip(kinds, handles, strict=True)}
    assert found["weld holds"].tolist() == [True, False, False, False, False]
    return found | {"qpos": robot.get_qpos(), "qvel": robot.get_qvel(), "weak": weak.is_attached()}


def suction(folder: Path, **how: Any) -> Readings:
    """Cups on a kinematic gripper and on a gantry, on in some environments."""
    scene = km.Scene(quiet=True, **how)
    scene.add(km.Plane())
    gripper = scene.add(km.Box((0.1, 0.1, 0.02)), kinematic=True, pos=(0.0, 0.0, 0.065))
    box = scene.add(km.Box((0.05, 0.05, 0.05)), mass=0.2, pos=(0.0, 0.0, 0.025))
    picker = scene.add(written(folder, PICKER), pos=(1.0, 0.0, 0.0))
    ball = scene.add(km.Sphere(0.02), mass=0.2, pos=(1.0, 0.0, 0.198))
    cup = scene.add_suction(gripper, pos=(0, 0, -0.01), normal=(0, 0, -1), distance=0.01)
    other = scene.add_suction(picker, "tool", pos=(0, 0, -0.08), normal=(0, 0, -1), distance=0.004, max_force=4.0)
    scene.build(N_ENVS)
    cup.turn_on([0, 2])
    other.turn_on([1, 2])
    scene.step()
    gripper.set_target_pose((0.1, 0.0, 0.2), (1, 0, 0, 0), duration=0.4)
    scene.step(60)
    found = {"held": cup.get_held(), "held by the tool": other.get_held(), "force": cup.get_force()}
    assert (found["held"] >= 0).tolist() == [True, False, True, False, False]
    assert (found["held by the tool"] >= 0).tolist() == [False, True, True, False, False]
    held = [1, 2]
    return found | {"box": box.get_pos(), "ball": ball.get_pos()[held], "gantry": picker.get_qpos()}


def kinematic_bodies(folder: Path, **how: Any) -> Readings:
    """A tray that moves and turns in each environment at its own speed, with a box on it."""
    scene = km.Scene(quiet=True, cone="elliptic", dt=0.002, **how)
    tray = scene.add(km.Box((0.6, 0.6, 0.04)), kinematic=True, pos=(0, 0, 0.5), friction=0.4)
    box = scene.add(km.Box((0.2, 0.2, 0.02)), pos=(0, 0, 0.53), friction=0.4)
    scene.build(N_ENVS)
    scene.step(20)
    target = np.array([[0.002 * i, 0.001, 0.5] for i in range(N_ENVS)])
    tray.set_target_pose(target, [np.cos(0.02), 0.0, 0.0, np.sin(0.02)], duration=0.1)
    scene.step(40)
    velocity = {"tray velocity": tray.get_vel(), "tray angular velocity": tray.get_ang()}
    return velocity | {"tray": tray.get_qpos(), "box": box.get_qpos(), "box velocity": box.get_vel()}


def masses_beside_kinematic_bodies(folder: Path, **how: Any) -> Readings:
    """Contact forces of a box whose mass differs between environments, on a kinematic body."""
    scene = km.Scene(quiet=True, dt=0.005, **how)
    scene.add(km.Box((0.4, 0.4, 0.1)), kinematic=True)
    box = scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0, 0, 0.1), density=1000)
    scene.build(N_ENVS, per_env=("mass_shift",))
    box.set_mass_shift(np.arange(N_ENVS)[:, None] * 0.5)
    scene.step(100)
    return {"force": box.get_links_net_contact_force()[:, 0]}


def surface_velocity(folder: Path, **how: Any) -> Readings:
    """Boxes on a belt and a turntable, whose speed differs between environments."""
    scene = km.Scene(quiet=True, cone="elliptic", dt=0.002, **how)
    belt = scene.add(km.Box((4, 1, 0.1)), fixed=True, pos=(0, 0, -0.05), euler=(0, 0, np.pi / 2), friction=0.5)
    table = scene.add(km.Cylinder(0.8, 0.1), fixed=True, pos=(3, 0, -0.05), friction=0.5)
    box = scene.add(km.Box((0.2, 0.2, 0.02)), pos=(0, -1, 0.01), friction=0.5)
    rider = scene.add(km.Box((0.06, 0.06, 0.02)), pos=(3.3, 0, 0.01), friction=0.5)
    scene.set_surface_velocity(belt, (1.0, 0.0, 0.0))
    scene.build(N_ENVS)
    scene.set_surface_velocity(table, angular=[[0.0, 0.0, 0.5 * i] for i in range(N_ENVS)])
    scene.step(50)
    scene.set_surface_velocity(belt, (-1.0, 0.0, 0.0), envs_idx=[1])
    scene.step(20)
    return {"box": box.get_vel(), "rider": rider.get_vel(), "box position": box.get_pos()}


def added_sensors(folder: Path, **how: Any) -> Readings:
    """Readings of all kinds of sensors that scenes add, and of those of a file."""
    scene = km.Scene(quiet=True, **how)
    entity = scene.add(written(folder, ARM), name="it")
    for sensor, _ in ADDED.values():
        scene.add_sensor(sensor())
    scene.add_sensor(km.Altimeter(link="arm", pos=(0.3, 0.0, 0.0)))
    scene.add_sensor(km.RayFan(link="arm", pos=(0.3, 0.0, 0.0), n_rays=3, angle=1.0, euler=(0.0, np.pi / 2, 0.0)))
    scene.add_sensor(km.Lidar(name="high", pos=(0.0, 0.0, 2.0), n_rays=4, n_rows=2, rows_angle=1.0, range=(0.1, 4.3)))
    scene.add_sensor(km.Gps(entity=entity, origin=(48.0, 11.0, 500.0), heading=np.pi / 2))
    scene.build(N_ENVS)
    entity.control(np.linspace(-0.4, 0.4, N_ENVS)[:, None])
    scene.step(30)
    return {name: np.asarray(scene.sensors[name].read()) for name in scene.sensors.names}


def spatial_queries(folder: Path, **how: Any) -> Readings:
    """Rays, distances and overlaps of all geom types at random poses."""
    scene = km.Scene(quiet=True, **how)
    targets = scene.add(written(folder, TARGETS))
    scene.build(N_ENVS)
    rng = np.random.default_rng(0)
    qpos = targets.get_qpos().astype(np.float64)
    for start in range(0, qpos.shape[1], 7):
        quat = rng.normal(size=(N_ENVS, 4))
        qpos[:, start + 3 : start + 7] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    targets.set_qpos(qpos)
    aims = np.concatenate([np.repeat(qpos[0].reshape(-1, 7)[:, :3], 4, axis=0), rng.uniform(-1, 0.5, (20, 3))])
    aims += rng.normal(scale=0.05, size=aims.shape)  # not at vertices and edges
    origins = rng.uniform((-2.0, -2.0, -0.5), (2.0, 2.0, 1.5), aims.shape)
    hits = scene.cast_rays(origins, aims - origins)
    is_hit = np.isfinite(hits.distance)
    assert is_hit.mean() > 0.5
    found = {"ray hits": is_hit, "ray geoms": hits.geom, "ray distances": hits.distance}
    found |= {"ray normals": np.where(is_hit[..., None], hits.normal, 0.0)}
    for a, b in (("0", "1"), ("2", "3"), ("4", "5")):
        result = scene.distance(targets.get_link(a), targets.get_link(b))
        found |= {f"distance {a} {b}": result.distance, f"point {a} {b}": result.point_a}
    overlaps = scene.overlaps(km.Sphere(0.4), np.linspace((1.0, 0.0, 0.3), (0.0, 1.0, 0.3), N_ENVS), margin=0.1)
    return found | {"overlaps": overlaps.n, "depths": np.where(overlaps.valid_mask, overlaps.distance, 0.0)}


def implicit_integrator(folder: Path, **how: Any) -> Readings:
    """A free body with limbs that turns fast, where the derivative of Coriolis forces matters."""
    scene = km.Scene(quiet=True, integrator="implicit", dt=0.005, contacts=False, **how)
    robot = scene.add(EXAMPLES / "quadruped" / "quadruped.xml")
    scene.build(N_ENVS)
    robot.set_qvel(np.random.default_rng(1).uniform(-3.0, 3.0, (N_ENVS, robot.n_dofs)))
    scene.step(40)
    return {"qpos": robot.get_qpos(), "qvel": robot.get_qvel()}


def welds_at_present_pose(folder: Path, **how: Any) -> Readings:
    """A weld that is enabled at the present pose, and at that of the file."""
    scene = km.Scene(quiet=True, contacts=False, **how)
    entity = scene.add(written(folder, WELDED))
    scene.build(N_ENVS, per_env=("equality",))
    qpos = entity.get_qpos()
    qpos[:, 7:10], qpos[:, 10:14] = [0.5, 0.4, 1.3], [0.8, 0.6, 0.0, 0.0]
    entity.set_qpos(qpos)
    scene.set_equality(True, "grip", envs_idx=[1, 3])
    scene.set_equality(True, "grip", envs_idx=[2], at="file")
    entity.set_qvel(np.where(np.arange(entity.n_dofs) == 4, 0.5, 0.0))
    scene.step(50)
    return {"qpos": entity.get_qpos(), "qvel": entity.get_qvel()}


def default_gains(folder: Path, **how: Any) -> Readings:
    """A URDF arm without gains that moves to positions and then at velocities."""
    scene = km.Scene(quiet=True, contacts=False, **how)
    arm = scene.add(EXAMPLES / "arm" / "arm.urdf", fixed=True)
    scene.build(N_ENVS)
    arm.control_dofs_position(np.random.default_rng(2).uniform(-0.3, 0.3, (N_ENVS, arm.n_dofs)))
    scene.step(60)
    found = {"position": arm.get_dofs_position(), "kp": arm.get_dofs_kp(), "kv": arm.get_dofs_kv()}
    arm.control_dofs_velocity(np.full((N_ENVS, arm.n_dofs), 0.05))
    scene.step(20)
    return found | {"velocity": arm.get_dofs_velocity()}


def fast_bodies(folder: Path, **how: Any) -> Readings:
    """Balls and boxes thrown at a thin plate at another speed in each environment."""
    scene = km.Scene(quiet=True, dt=0.002, gravity=(0, 0, 0), **how)
    scene.add(km.Box((1, 1, 0.005)), fixed=True)
    shapes = (km.Sphere(0.005), km.Box((0.02, 0.03, 0.04)), km.Capsule(0.005, 0.04))
    bodies = [scene.add(shape, fast=True, pos=(0.2 * i, 0, 0.1)) for i, shape in enumerate(shapes)]
    scene.build(N_ENVS)
    for body in bodies:
        body.set_dofs_velocity(np.outer(np.linspace(3.0, 40.0, N_ENVS), [0, 0, -1, 0, 0, 0]))
    scene.step(30)
    return {f"height of {i}": body.get_pos()[:, 2] for i, body in enumerate(bodies)}


def servos(folder: Path, **how: Any) -> Readings:
    """PID controllers and DC motors with all states, at another target in each environment."""
    scene = km.Scene(quiet=True, contacts=False, **how)
    text = ROBOT.format(integrator="implicitfast", actuators=SERVOS["motor, all"], more="")
    robots = [scene.add(written(folder, text), name="motor")]
    other = folder / "pid.xml"
    other.write_text(ROBOT.format(integrator="implicitfast", actuators=SERVOS["pid, all"], more=""), encoding="utf-8")
    robots.append(scene.add(other, name="pid"))
    scene.build(N_ENVS)
    for robot in robots:
        targets = np.linspace(-0.5, 0.5, N_ENVS)
        robot.control(np.stack([targets, 0 * targets, 0.1 * targets, 0 * targets], axis=1))
    scene.step(50)
    speeds = {f"qvel of {robot.name}": robot.get_qvel() for robot in robots}
    return speeds | {f"states of {robot.name}": robot.get_servo_states() for robot in robots}


def spawning(folder: Path, **how: Any) -> Readings:
    """Boxes and a crawler that are placed and removed, in each environment others."""
    scene = km.Scene(quiet=True, dt=0.002, **how)
    scene.add(km.Plane())
    box = scene.add(km.Box((0.2, 0.2, 0.2)), pos=(0, 0, 0.1), name="box")
    robot = scene.add(written(folder, CRAWLER), pos=(0.5, 0, 0.1))
    scene.build(N_ENVS, room={box: 2})
    upper = scene.spawn(box, pos=(0.01, 0, 0.31), envs_idx=[0, 1, 2])
    scene.step(20)
    scene.remove(box, [1, 3])
    scene.remove(robot, 2)
    scene.step(30)
    other = scene.spawn(box, pos=(0, 0.5, 0.3), vel=(0, 0.5, 0), envs_idx=[3, 4])
    scene.step(20)
    found = {f"{x.name} present": x.is_present() for x in scene.entities}
    found |= {f"{x.name} position": x.get_pos() for x in (box, upper, robot, other)}
    assert found["box position"][1, 2] == pytest.approx(found["box position"][3, 2])
    return found | {"contacts": scene.get_contacts().n, "energy": scene.get_energy()[1]}


FEATURES: dict[Callable[..., Readings], float] = {
    spawning: 2e-3,
    attachments: 1e-3,
    suction: 1e-3,
    kinematic_bodies: 3e-3,
    masses_beside_kinematic_bodies: 1e-3,
    surface_velocity: 2e-3,
    added_sensors: 2e-3,
    spatial_queries: 2e-4,
    implicit_integrator: 1e-3,
    welds_at_present_pose: 1e-3,
    default_gains: 1e-3,
    fast_bodies: 1e-3,
    servos: 2e-3,
}
"""Feature -> relative and absolute tolerance of its readings."""


def compare(on_gpu: Readings, on_cpu: Readings, tolerance: float) -> None:
    """Floating-point readings agree within a tolerance, all others exactly."""
    assert on_gpu.keys() == on_cpu.keys()
    for quantity, expected in on_cpu.items():
        values, expected = np.asarray(on_gpu[quantity]), np.asarray(expected)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(values, expected, rtol=tolerance, atol=tolerance, err_msg=quantity)
        else:
            np.testing.assert_array_equal(values, expected, err_msg=quantity)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.__name__)
def test_a_gpu_gives_the_numbers_of_the_cpu(feature: Callable[..., Readings], tmp_path: Path) -> None:
    compare(feature(tmp_path, device=GPU), feature(tmp_path, device="cpu"), FEATURES[feature])


def test_the_tiers_of_a_gpu_give_the_same_bits(monkeypatch: pytest.MonkeyPatch, no_program_cache: None) -> None:
    """Kernels that are separated at first, before, across and after the switch; against the final ones alone."""
    monkeypatch.setattr(compilation, "MAX_KERNEL_INSTRUCTIONS", 1000)
    monkeypatch.setenv("KINEMA_TIER", "tiered")
    separated: list[int] = []

    def separate(partitions: Any) -> Any:
        separated.append(len(partitions))
        return separate_partitions(partitions)

    monkeypatch.setattr(compilation, "separate_partitions", separate)
    states = []
    for wait in (False, True):
        scene = km.Scene(quiet=True, device=GPU, wait=wait)
        robot = scene.add(EXAMPLES / "quadruped" / "quadruped.xml")
        scene.build(64)
        robot.set_qvel(np.random.default_rng(0).uniform(-0.5, 0.5, (64, robot.n_dofs)))
        trajectory = []
        for k in range(4):
            scene.step(5)
            trajectory.append(np.concatenate([robot.get_qpos(), robot.get_qvel()], axis=1))
            if k == 1:
                scene.prepare(wait=True)
        assert scene.built.engine.tier == "optimised"
        states.append(trajectory)
    assert separated
    assert set(separated) == {2}
    np.testing.assert_array_equal(*states)
