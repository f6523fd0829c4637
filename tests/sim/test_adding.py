"""How to add a stage, a constraint, a joint kind, an actuator kind and a field: a toy of each, by that way alone.

`ARCHITECTURE.md` describes the ways. Each toy works in straight lines and in loops over tables, without a word about
either.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kinema import read, trace
from kinema.backend import find_device
from kinema.compile import Part, compile_model
from kinema.model import MOTION_SIZES, Model, Motion
from kinema.sim import ARRAYS, Control, Engine, Integrator, Settings
from kinema.sim.arrays import BY_NAME, ArrayInfo, Owner, Use
from kinema.sim.constrain.kinds import CONSTRAINTS, ConstraintKind
from kinema.sim.constrain.rows import Block, HasSweeps, Law, Rows
from kinema.sim.fields.groups import GROUPS, Situation
from kinema.sim.fields.names import SPACES, FieldInfo
from kinema.sim.force.cords import ACTUATORS
from kinema.sim.rigid.kinematics import MOTIONS, MotionKind, Pose, Twist
from kinema.sim.stages import STAGES
from kinema.sim.step import Step
from kinema.sim.sweeps.cords import Cord, Pull
from kinema.sim.sweeps.maths import ZERO, axis_rotation, product, scale
from kinema.sim.sweeps.tree import Node
from kinema.trace import Row, RowCode, Value
from kit.assets import EXAMPLES

EMISSIONS = ("unrolled", "rolled")
N_ENVS = 5
HARD = 0.9999
"""The greatest impedance there is."""


def arm() -> Model:
    """The example arm, its gripper's fingers and all."""
    return compile_model([Part(name="arm", description=read(EXAMPLES / "arm" / "arm.urdf"), fixed=True)])


def engine(model: Model, emission: str, control: Control = Control.FORCE, **settings: object) -> Engine:
    """A running arm in double precision, moving."""
    made = Engine(
        model,
        Settings(**settings),  # type: ignore[arg-type]
        N_ENVS,
        find_device("cpu"),
        precision="double",
        emission=emission,
        control=[control] * model.n_dofs,
    )
    rng = np.random.default_rng(0)
    made.field("qpos").assign(rng.uniform(-0.5, 0.5, (model.n_qs, N_ENVS)))
    made.field("vel").assign(rng.uniform(-1, 1, (model.n_dofs, N_ENVS)))
    return made


@pytest.fixture
def odometer() -> Iterator[None]:
    """A stage that adds up how far each joint has gone, in an array of its own."""

    def count(step: Step) -> None:
        s = step.s

        def body(node: Node) -> None:
            gone = zip(s.of("odometer", node), s.of("vel", node), strict=True)
            s.write("odometer", node, [way + s.dt * trace.absolute(v) for way, v in gone])

        s.each_frame("odometer", body)

    info = ArrayInfo("odometer", Owner.DOF, Use.STATE)
    ARRAYS.append(info)
    BY_NAME["odometer"] = info
    STAGES.insert(0, count)
    yield
    STAGES.remove(count)
    ARRAYS.remove(info)
    del BY_NAME["odometer"]


@pytest.mark.parametrize("emission", EMISSIONS)
def test_a_stage(odometer: None, emission: str) -> None:
    running = engine(arm(), emission, dt=0.001)
    expected = np.zeros((running.model.n_dofs, N_ENVS))
    for _ in range(20):
        expected += 0.001 * np.abs(running.field("vel").numpy())
        running.step()
    np.testing.assert_allclose(running.field("odometer").numpy(), expected, rtol=1e-12)
    running.reset()
    assert not running.field("odometer").numpy().any(), "it is state, and goes back to its start like all state"


@pytest.fixture
def urge() -> Iterator[None]:
    """A constraint: every joint accelerates by one at least."""

    def blocks(model: Model, nodes: list[Node]) -> list[Block]:
        own = {"solref": (-1.0, 0.0), "solimp": (HARD, HARD, 0.0, 0.5, 1.0)}
        return [Block(Law.LIMIT, [dof], 1, [1.0], **own, tells={"urge": dof}) for node in nodes for dof in node.dofs]

    def fill(step: HasSweeps, rows: Rows) -> None:
        table = [Row("dof", rows.places[i]) for i, block in enumerate(rows.blocks) if "urge" in block.tells]

        def body(code: RowCode) -> None:
            code.write("position", [-HARD])  # it wants the stiffness 1 / HARD^2 times the impedance HARD times this
            code.write("jacobian 0", [1.0])

        step.s.loop("the urge", table, body)

    kind = ConstraintKind("urge", lambda settings: True, blocks, fill)
    CONSTRAINTS.append(kind)
    yield
    CONSTRAINTS.remove(kind)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_a_constraint(urge: None, emission: str) -> None:
    running = engine(arm(), emission, dt=1e-6, integrator=Integrator.EULER)
    running.field("command").assign(np.full((running.model.n_dofs, N_ENVS), -50.0))
    before = running.field("vel").numpy().copy()
    running.step()
    gained = (running.field("vel").numpy() - before) / 1e-6
    assert gained.min() > 1.0 - 1e-2
    assert (gained < 1.0 + 1e-2).any(axis=0).all(), "and no more than that: 50 N m are a lot for this arm"


@pytest.fixture
def geared() -> Iterator[int]:
    """A joint kind: a hinge that turns twice as far as its coordinate says."""
    number = 100

    def pose(node: Node, q: object) -> Pose:
        angle = 2.0 * (q[0] - node.reference)  # type: ignore[index]
        return Pose(product(node.rotation, axis_rotation(node.axis, angle)), node.position)

    MOTION_SIZES[number] = (1, 1)
    MOTIONS[number] = MotionKind(
        pose, lambda node, _: [Twist(scale(2.0, node.axis), ZERO)], lambda q, shift: [q[0] + shift[0]]
    )
    yield number
    del MOTION_SIZES[number], MOTIONS[number]


@pytest.mark.parametrize("emission", EMISSIONS)
def test_a_joint_kind(geared: int, emission: str) -> None:
    """With half the coordinates and twice the torques it moves as a hinge does."""
    plain, twice = arm(), arm()
    hinges = plain.frames.motion == Motion.HINGE
    twice.frames.motion[hinges] = geared
    of_hinge = np.isin(plain.dofs.frame_idx, np.flatnonzero(hinges))
    ratio = np.where(of_hinge, 2.0, 1.0)[:, None]
    for model in (plain, twice):
        model.dofs.damping[:] = model.dofs.armature[:] = 0.0
        model.dofs.force_lower[:], model.dofs.force_upper[:] = -np.inf, np.inf
    first, second = (engine(model, emission, dt=0.001) for model in (plain, twice))
    push = np.random.default_rng(1).uniform(-2, 2, (plain.n_dofs, N_ENVS))
    q, v = (first.field(name).numpy().copy() for name in ("qpos", "vel"))
    for running, by in ((first, 1.0), (second, ratio)):
        running.field("qpos").assign(q / by)
        running.field("vel").assign(v / by)
        running.field("command").assign(push * by)
        running.step(50)
    np.testing.assert_allclose(second.field("qpos").numpy() * ratio, first.field("qpos").numpy(), rtol=0, atol=1e-9)
    poses = [np.array(running.fields.links_state.pos.numpy()) for running in (first, second)]
    np.testing.assert_allclose(poses[0], poses[1], rtol=0, atol=1e-9)


@pytest.fixture
def cubic() -> Iterator[str]:
    """An actuator kind: the cube of its control."""

    def force(cord: Cord, control: Value) -> Pull:
        return Pull(control * control * control, 0.0)

    ACTUATORS["cubic"] = force
    yield "cubic"
    del ACTUATORS["cubic"]


@pytest.mark.parametrize("emission", EMISSIONS)
def test_an_actuator_kind(cubic: str, emission: str) -> None:
    file = EXAMPLES / "quadruped" / "quadruped.xml"
    model = compile_model([Part(name="robot", description=read(file))])
    assert model.n_actuators
    model.actuators.kinds[:] = [cubic] * model.n_actuators
    running = engine(model, emission, Control.ACTUATOR)
    control = np.random.default_rng(2).uniform(-0.9, 0.9, (model.n_actuators, N_ENVS))
    running.field("ctrl").assign(control)
    cube = np.clip(control, model.actuators.ctrl_lower[:, None], model.actuators.ctrl_upper[:, None]) ** 3
    cube = np.clip(cube, model.actuators.force_lower[:, None], model.actuators.force_upper[:, None])
    expected = model.actuators.moment.T @ cube
    bounds = model.dofs.effort_lower[:, None], model.dofs.effort_upper[:, None]
    found = running.fields.dofs_state.qf_actuator.numpy()
    np.testing.assert_allclose(found, np.clip(expected, *bounds), rtol=1e-12, atol=1e-12)
    assert np.abs(found).max() > 0.1


@pytest.fixture
def power() -> Iterator[None]:
    """A field: the power that all forces together put into each joint."""

    def write(now: Situation) -> None:
        s, force = now.s, now.force

        def body(node: Node) -> None:
            s.write("power", node, [f * v for f, v in zip(force[node.here], s.of("vel", node), strict=True)])

        s.each_frame("power", body)

    info = FieldInfo("power", "toy", (), "W", "what all forces together put in")
    SPACES["dofs_state"].append(info)
    GROUPS["toy"] = write
    yield
    SPACES["dofs_state"].remove(info)
    del GROUPS["toy"]


@pytest.mark.parametrize("emission", EMISSIONS)
def test_a_field(power: None, emission: str) -> None:
    running = engine(arm(), emission)
    running.step(3)
    dofs = running.fields.dofs_state
    expected = dofs.force.numpy() * running.field("vel").numpy()
    np.testing.assert_allclose(dofs.power.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert "power" in dir(dofs)
