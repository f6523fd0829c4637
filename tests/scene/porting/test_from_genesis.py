"""Ten programs for Genesis' documented API and their ports: no more lines, and the numbers that MuJoCo has.

Genesis is not run here: its programs are text, and MuJoCo says what should come out of the ports.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km

from .programs import Pair, compare, model_file

Oracle = Callable[[Any, Any], Any]


def stepped(model: Any, data: Any, steps: int) -> None:
    for _ in range(steps):
        mujoco.mj_step(model, data)


# ------------------------------------------------------------------------------------------------------------- hello

HELLO = """
gs.init(backend=gs.cpu)
scene = gs.Scene(show_viewer=False)
robot = scene.add_entity(gs.morphs.MJCF(file=file))
scene.build()
for i in range(50):
    scene.step()
"""


def hello(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    for _ in range(50):
        scene.step()
    return robot.get_qpos(), scene.time


def hello_oracle(model: Any, data: Any) -> Any:
    stepped(model, data, 50)
    return data.qpos, data.time


# ----------------------------------------------------------------------------------------------- a robot is controlled

CONTROL = """
gs.init(backend=gs.cpu)
scene = gs.Scene()
robot = scene.add_entity(gs.morphs.MJCF(file=file))
scene.build()
dofs = [robot.get_joint(name).dof_idx_local for name in ("joint1", "joint2")]
robot.set_dofs_kp(np.array([30, 20]), dofs)
robot.set_dofs_kv(np.array([3, 2]), dofs)
robot.set_dofs_force_range(np.array([-4, -4]), np.array([4, 4]), dofs)
robot.set_dofs_position(np.array([0.1, 0.2]), dofs)
robot.control_dofs_position(np.array([0.8, -0.6]), dofs)
for i in range(50):
    scene.step()
robot.get_dofs_position(dofs)
robot.get_dofs_velocity(dofs)
"""


def control(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    dofs = robot.find_dofs("joint[12]")
    robot.set_dofs_kp(np.array([30, 20]), dofs)
    robot.set_dofs_kv(np.array([3, 2]), dofs)
    robot.set_dofs_force_range(np.array([-4, -4]), np.array([4, 4]), dofs)
    robot.set_dofs_position(np.array([0.1, 0.2]), dofs)
    robot.control_dofs_position(np.array([0.8, -0.6]), dofs)
    scene.step(50)
    return robot.get_dofs_position(dofs), robot.get_dofs_velocity(dofs)


def control_oracle(model: Any, data: Any) -> Any:
    for i, (kp, kv) in enumerate(((30, 3), (20, 2))):
        model.actuator_gainprm[i, :3] = kp, 0, 0
        model.actuator_biasprm[i, :3] = 0, -kp, -kv
        model.actuator_biastype[i] = mujoco.mjtBias.mjBIAS_AFFINE
        model.actuator_gear[i, 0] = 1
        model.actuator_forcelimited[i], model.actuator_forcerange[i] = True, (-4, 4)
    data.qpos[-2:] = 0.1, 0.2
    data.ctrl[:] = 0.8, -0.6
    stepped(model, data, 50)
    return data.qpos[-2:], data.qvel[-2:]


# ----------------------------------------------------------------------------------------------- many at the same time

PARALLEL = """
gs.init(backend=gs.gpu)
scene = gs.Scene()
robot = scene.add_entity(gs.morphs.MJCF(file=file))
scene.build(n_envs=3, env_spacing=(1.0, 1.0))
robot.control_dofs_force(torch.tensor([[0.5], [0.0], [-0.5]]), [1])
robot.control_dofs_force(torch.tensor([[1.0]]), [0], envs_idx=torch.tensor([2]))
for i in range(20):
    scene.step()
robot.get_dofs_position()[2]
"""


def parallel(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build(n_envs=3, env_spacing=(1.0, 1.0))
    robot.control_dofs_force(np.array([[0.5], [0.0], [-0.5]]), [1])
    robot.control_dofs_force(np.array([[1.0]]), [0], envs_idx=np.array([2]))
    scene.step(20)
    return (robot.get_dofs_position()[2],)


def parallel_oracle(model: Any, data: Any) -> Any:
    model.actuator_gainprm[0, 0] = model.actuator_biastype[0] = 0
    model.actuator_gainprm[1, 0] = 0
    data.qfrc_applied[-2:] = 1.0, -0.5
    stepped(model, data, 20)
    return (data.qpos,)


# ---------------------------------------------------------------------------------- bodies are put where one wants them

BODIES = """
gs.init(backend=gs.cpu)
scene = gs.Scene(sim_options=gs.options.SimOptions(dt=0.002))
plane = scene.add_entity(gs.morphs.Plane())
box = scene.add_entity(gs.morphs.Box(size=(0.2, 0.2, 0.2), pos=(0, 0, 2)), material=gs.materials.Rigid(rho=500))
scene.build()
box.set_pos(np.array([1.0, 0.0, 3.0]))
box.set_quat(np.array([0.6, 0.8, 0.0, 0.0]))
box.set_dofs_velocity(np.array([1.0, 0, 0, 0, 0, 2.0]))
for i in range(100):
    scene.step()
box.get_pos(); box.get_vel(); box.get_ang()
box.zero_all_dofs_velocity()
box.get_dofs_velocity()
"""


def bodies(_: str) -> Any:
    scene = km.Scene(dt=0.002, precision="double", quiet=True, contacts=False)
    scene.add(km.Plane())
    box = scene.add(km.Box((0.2, 0.2, 0.2)), pos=(0, 0, 2), density=500)
    scene.build()
    box.set_pos(np.array([1.0, 0.0, 3.0]))
    box.set_quat(np.array([0.6, 0.8, 0.0, 0.0]))
    box.set_dofs_velocity(np.array([1.0, 0, 0, 0, 0, 2.0]))
    scene.step(100)
    where, speed, spin = box.get_pos(), box.get_vel(), box.get_ang()
    box.zero_all_dofs_velocity()
    return where, speed, spin, box.get_dofs_velocity()


def bodies_oracle(_: Any, __: Any) -> Any:
    """Free flight: v = n g dt, z = h - g dt^2 n (n + 1) / 2; a cube keeps its spin."""
    n, dt, g = 100, 0.002, 9.81
    height = 3.0 - g * dt**2 * n * (n + 1) / 2
    turned = [0.0, -2 * 0.6 * 0.8 * 2.0, (0.36 - 0.64) * 2.0]
    return [1.0 + n * dt, 0.0, height], [1.0, 0.0, -n * g * dt], turned, np.zeros(6)


# --------------------------------------------------------------------------------------------------------- pushed links

PUSH = """
gs.init(backend=gs.cpu)
scene = gs.Scene()
robot = scene.add_entity(gs.morphs.MJCF(file=file))
scene.build()
link = robot.get_link("ball")
for i in range(30):
    scene.sim.rigid_solver.apply_links_external_force(force=[[0, 0, 8.0]], links_idx=[link.idx])
    scene.step()
robot.get_links_pos([link.idx_local])
"""


def push(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build(external_forces=True)
    robot.apply_links_external_force([[0, 0, 8.0]], "ball")
    scene.step(30)
    return (robot.get_links_pos("ball"),)


def push_oracle(model: Any, data: Any) -> Any:
    data.body("ball").xfrc_applied[2] = 8.0
    stepped(model, data, 30)
    mujoco.mj_forward(model, data)
    return (data.body("ball").xpos,)


# ------------------------------------------------------------------------------------------------------------ contacts

CONTACTS = """
gs.init(backend=gs.cpu)
scene = gs.Scene()
plane = scene.add_entity(gs.morphs.Plane())
ball = scene.add_entity(gs.morphs.Sphere(radius=0.1, pos=(0, 0, 0.0998)), material=gs.materials.Rigid(friction=0.6))
scene.build()
for i in range(500):
    scene.step()
found = ball.get_contacts(with_entity=plane)
found["position"]; found["penetration"]
ball.get_links_net_contact_force()
"""


def contacts(_: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    plane = scene.add(km.Plane())
    ball = scene.add(km.Sphere(radius=0.1), pos=(0, 0, 0.0998), friction=0.6)
    scene.build()
    scene.step(500)
    found = ball.get_contacts(with_entity=plane)
    return found["position"][..., :2], found["valid_mask"].sum(), ball.get_links_net_contact_force()


def contacts_oracle(_: Any, __: Any) -> Any:
    weight = 1000 * 4 / 3 * np.pi * 0.1**3 * 9.81
    return [0.0, 0.0], 1, [0.0, 0.0, weight]


# ------------------------------------------------------------------------------------------------- inertia and Jacobian

INERTIA = """
gs.init(backend=gs.cpu)
scene = gs.Scene()
robot = scene.add_entity(gs.morphs.MJCF(file=file))
scene.build()
robot.set_qpos(np.array([0.4, -0.3]))
robot.get_mass_mat()
robot.get_jacobian(link=robot.get_link("lower"))
robot.get_dofs_damping(); robot.get_dofs_armature(); robot.get_mass()
"""


def inertia(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    robot.set_qpos(np.array([0.4, -0.3]))
    jacobian = robot.get_jacobian(link=robot.get_link("lower"))
    constants = robot.get_dofs_damping(), robot.get_dofs_armature(), robot.get_mass()
    return robot.get_mass_mat(), jacobian, *constants


def inertia_oracle(model: Any, data: Any) -> Any:
    data.qpos[:] = 0.4, -0.3
    mujoco.mj_forward(model, data)
    matrix, jacobian = np.zeros((2, 2)), np.zeros((6, 2))
    mujoco.mj_fullM(model, data, matrix)
    mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], model.body("lower").id)
    return matrix, jacobian, model.dof_damping, model.dof_armature, model.body_mass.sum()


# ------------------------------------------------------------------------------------------------ forces and velocities

FORCES = """
gs.init(backend=gs.cpu)
scene = gs.Scene()
robot = scene.add_entity(gs.morphs.MJCF(file=file))
scene.build()
dofs = [robot.get_joint(name).dof_idx_local for name in ("joint1", "joint2")]
robot.set_dofs_kv(np.array([3.0, 2.0]), dofs)
robot.control_dofs_velocity(np.array([1.0, -0.5]), dofs)
for i in range(30):
    scene.step()
robot.get_dofs_control_force(dofs)
robot.get_dofs_velocity(dofs)
robot.get_links_vel(); robot.get_links_ang()
"""


def forces(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    dofs = robot.find_dofs("joint1", "joint2")
    robot.set_dofs_kv(np.array([3.0, 2.0]), dofs)
    robot.control_dofs_velocity(np.array([1.0, -0.5]), dofs)
    scene.step(30)
    force, speed = robot.get_dofs_control_force(dofs), robot.get_dofs_velocity(dofs)
    return force, speed, robot.get_links_vel("lower"), robot.get_links_ang("lower")


def forces_oracle(model: Any, data: Any) -> Any:
    for i, kv in enumerate((3.0, 2.0)):
        model.actuator_gainprm[i, :3] = kv, 0, 0
        model.actuator_biasprm[i, :3] = 0, 0, -kv
        model.actuator_biastype[i] = mujoco.mjtBias.mjBIAS_AFFINE
        model.actuator_gear[i, 0] = 1
    data.ctrl[:] = 1.0, -0.5
    stepped(model, data, 30)
    mujoco.mj_forward(model, data)
    motion = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, model.body("lower").id, motion, 0)
    return data.qfrc_actuator[-2:], data.qvel[-2:], motion[3:], motion[:3]


# ---------------------------------------------------------------------------------------------------- states and resets

STATES = """
gs.init(backend=gs.cpu)
scene = gs.Scene()
robot = scene.add_entity(gs.morphs.MJCF(file=file))
scene.build()
for i in range(10):
    scene.step()
state = scene.get_state()
for i in range(10):
    scene.step()
scene.reset(state)
for i in range(10):
    scene.step()
robot.get_qpos()
scene.reset()
robot.get_qpos()
"""


def states(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build()
    scene.step(10)
    state = scene.get_state()
    scene.step(10)
    scene.set_state(state)
    scene.step(10)
    then = robot.get_qpos()
    scene.reset()
    return then, robot.get_qpos()


def states_oracle(model: Any, data: Any) -> Any:
    stepped(model, data, 20)
    return data.qpos, model.qpos0


# --------------------------------------------------------------------------------------------- worlds that differ a bit

DOMAINS = """
gs.init(backend=gs.gpu)
scene = gs.Scene(rigid_options=gs.options.RigidOptions(batch_dofs_info=True, batch_links_info=True))
robot = scene.add_entity(gs.morphs.MJCF(file=file))
scene.build(n_envs=2)
links = [robot.get_link("upper").idx_local, robot.get_link("lower").idx_local]
robot.set_mass_shift(mass_shift=torch.tensor([[0.0, 0.0], [0.3, 0.1]]), links_idx_local=links)
robot.set_COM_shift(torch.tensor([[[0.0, 0, 0], [0, 0, 0]], [[0.02, 0, 0], [0, 0.01, 0]]]), links_idx_local=links)
dofs = [robot.get_joint(name).dof_idx_local for name in ("joint1", "joint2")]
robot.set_dofs_armature(torch.tensor([[0.01, 0.0], [0.02, 0.01]]), dofs)
for i in range(20):
    scene.step()
robot.get_qpos()[1]
"""


def domains(file: str) -> Any:
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(file)
    scene.build(n_envs=2, per_env=("mass_shift", "com_shift", "armature"))
    links = ["upper", "lower"]
    robot.set_mass_shift(np.array([[0.0, 0.0], [0.3, 0.1]]), links)
    robot.set_com_shift(np.array([[[0.0, 0, 0], [0, 0, 0]], [[0.02, 0, 0], [0, 0.01, 0]]]), links)
    robot.set_dofs_armature(np.array([[0.01, 0.0], [0.02, 0.01]]), "joint.")
    scene.step(20)
    return (robot.get_qpos()[1, -2:],)


def domains_oracle(model: Any, data: Any) -> Any:
    for name, more, shift in (("upper", 0.3, (0.02, 0, 0)), ("lower", 0.1, (0, 0.01, 0))):
        body = model.body(name)
        model.body_inertia[body.id] *= (body.mass + more) / body.mass
        model.body_mass[body.id] += more
        model.body_ipos[body.id] += shift
    model.dof_armature[-2:] = 0.02, 0.01
    stepped(model, data, 20)
    return (data.qpos[-2:],)


@dataclass(frozen=True)
class Ported:
    """A program, its port, and who knows what should come out."""

    pair: Pair
    oracle: Oracle


PROGRAMS = [
    Ported(Pair("hello", HELLO, hello, 1e-8, "ball"), hello_oracle),
    Ported(Pair("control", CONTROL, control), control_oracle),
    Ported(Pair("parallel", PARALLEL, parallel, 1e-8), parallel_oracle),
    Ported(Pair("bodies", BODIES, bodies), bodies_oracle),
    Ported(Pair("push", PUSH, push, 1e-8, "ball"), push_oracle),
    Ported(Pair("contacts", CONTACTS, contacts, 1e-5), contacts_oracle),
    Ported(Pair("inertia", INERTIA, inertia), inertia_oracle),
    Ported(Pair("forces", FORCES, forces), forces_oracle),
    Ported(Pair("states", STATES, states, 1e-8), states_oracle),
    Ported(Pair("domains", DOMAINS, domains), domains_oracle),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.pair.name for p in PROGRAMS])
def test_a_program_for_genesis(program: Ported, tmp_path: Path) -> None:
    file = str(model_file(tmp_path, program.pair.model))
    model = mujoco.MjModel.from_xml_path(file)
    compare(program.pair, program.oracle(model, mujoco.MjData(model)), program.pair.port(file))
