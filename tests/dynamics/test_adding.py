"""Toy extensions of the simulator, each by the way that `CONTRIBUTING.md` describes, and nothing else.

Stage, constraint, joint type, actuator, tendon, transmission path segment, shape pair, sensor and field on demand. Each
toy works unrolled and as loops over tables, without mentioning either.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from kinema import ir, read
from kinema.builder import EntitySpec, build_model
from kinema.core import Array, InternalError
from kinema.description import Frame, Robot, Sensor, Tendon, TendonPathItem, TendonPathKind
from kinema.dynamics import ARRAYS, ControlMode, Engine, Integrator, Settings
from kinema.dynamics.arrays import ARRAYS_BY_NAME, ArrayInfo, ArrayUse, ElementKind
from kinema.dynamics.collision.analytic_pairs import ANALYTIC_COLLISION_TABLE, AnalyticPair
from kinema.dynamics.collision.collision_table import get_collision_table
from kinema.dynamics.collision.collision_types import CollisionGeom, ContactQuery
from kinema.dynamics.collision.contact_buffer_specs import max_contacts_by_types
from kinema.dynamics.constraints.constraint_kinds import CONSTRAINT_KINDS, ConstraintKind
from kinema.dynamics.constraints.rows import ConstraintBlock, ConstraintRows, KinematicState, RowType
from kinema.dynamics.extensions import REGISTRIES, has_external_extensions
from kinema.dynamics.forces.fluid import FLUID_LAWS, FluidLaw
from kinema.dynamics.forces.transmission_forces import ACTUATOR_FORCE_LAWS, TENDON_FORCE_LAWS
from kinema.dynamics.forces.transmission_paths import SEGMENT_KINDS, EndLoad, MeasuredSegment
from kinema.dynamics.pipeline import STAGES, compute, stage
from kinema.dynamics.queries.field_catalog import NAMESPACES, FieldInfo
from kinema.dynamics.queries.field_groups import FIELD_GROUPS
from kinema.dynamics.rigid.kinematics import JOINT_MODELS, JointModel, Pose, Twist
from kinema.dynamics.rigid.rnea import Wrench
from kinema.dynamics.rigid.wrench_derivatives import ZERO_MATRIX, WrenchDerivative
from kinema.dynamics.sensors.sensor_outputs import SensorOutputs, write_sensor_output
from kinema.dynamics.step import StepData
from kinema.dynamics.tree.kinematic_tree import FrameNode, link_ref
from kinema.dynamics.tree.transmissions import ForceTerm, Transmission
from kinema.dynamics.vector_math import ZERO, axis_angle_to_matrix, diagonal_matrix, dot, matmul, scale, sub
from kinema.ir import IterationContext, LoopIteration, Tracer, Value
from kinema.model import PRIMITIVE_JOINT_SIZES, SENSOR_KINDS, Model, PrimitiveJointType, SensorKind, SensorTarget
from kinema.runtime import find_device
from kit.assets import EXAMPLES, ROOT
from kit.choosing import alternating, representative_tuples, representatives

CODEGENS = ("unrolled", "loops")
N_ENVS = 5
HARD = 0.9999
"""The greatest impedance there is."""


def arm() -> Model:
    """The example arm, its gripper's fingers and all."""
    return build_model([EntitySpec(name="arm", description=read(EXAMPLES / "arm" / "arm.urdf"), fixed=True)])


def engine(model: Model, codegen: str, control: ControlMode = ControlMode.FORCE, **settings: object) -> Engine:
    """A running arm in double precision, moving."""
    made = Engine(
        model,
        Settings(**settings),  # type: ignore[arg-type]
        N_ENVS,
        find_device("cpu"),
        precision="double",
        codegen=codegen,
        control_modes=[control] * model.n_dofs,
    )
    rng = np.random.default_rng(0)
    made.array_view("qpos").assign(rng.uniform(-0.5, 0.5, (model.n_qs, N_ENVS)))
    made.array_view("vel").assign(rng.uniform(-1, 1, (model.n_dofs, N_ENVS)))
    return made


@pytest.fixture
def odometer() -> Iterator[None]:
    """A stage that adds up how far each joint has gone, in an array of its own."""

    @stage()
    def count(step: StepData) -> None:
        s = step.ctx

        def body(node: FrameNode) -> None:
            gone = zip(s.read_node("odometer", node), s.read_node("vel", node), strict=True)
            s.write("odometer", node, [way + s.dt * ir.absolute(v) for way, v in gone])

        s.for_each_frame("odometer", body)

    info = ArrayInfo("odometer", ElementKind.DOF, ArrayUse.STATE)
    ARRAYS.append(info)
    ARRAYS_BY_NAME["odometer"] = info
    STAGES.insert(0, count)
    yield
    STAGES.remove(count)
    ARRAYS.remove(info)
    del ARRAYS_BY_NAME["odometer"]


@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_stage(odometer: None, codegen: str) -> None:
    running = engine(arm(), codegen, dt=0.001)
    expected = np.zeros((running.model.n_dofs, N_ENVS))
    for _ in range(20):
        expected += 0.001 * np.abs(running.array_view("vel").numpy())
        running.step()
    np.testing.assert_allclose(running.array_view("odometer").numpy(), expected, rtol=1e-12)
    running.reset()
    assert not running.array_view("odometer").numpy().any(), "it is state, and goes back to its start like all state"


@pytest.fixture
def urge() -> Iterator[None]:
    """A constraint: every joint accelerates by one at least."""

    def blocks(model: Model, nodes: list[FrameNode]) -> list[ConstraintBlock]:
        own = {"solref": (-1.0, 0.0), "solimp": (HARD, HARD, 0.0, 0.5, 1.0)}
        return [
            ConstraintBlock(RowType.LIMIT, [dof], 1, [1.0], **own, source={"urge": dof})
            for node in nodes
            for dof in node.dofs
        ]

    def fill(step: KinematicState, rows: ConstraintRows) -> None:
        table = [
            LoopIteration("dof", rows.block_arrays[i]) for i, block in enumerate(rows.blocks) if "urge" in block.source
        ]

        def body(code: IterationContext) -> None:
            code.write("position", [-HARD])  # it wants the stiffness 1 / HARD^2 times the impedance HARD times this
            code.write("jacobian 0", [1.0])

        step.ctx.for_each("the urge", table, body)

    kind = ConstraintKind("urge", lambda settings: True, blocks, fill)
    CONSTRAINT_KINDS.append(kind)
    yield
    CONSTRAINT_KINDS.remove(kind)


@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_constraint(urge: None, codegen: str) -> None:
    running = engine(arm(), codegen, dt=1e-6, integrator=Integrator.EULER)
    running.array_view("command").assign(np.full((running.model.n_dofs, N_ENVS), -50.0))
    before = running.array_view("vel").numpy().copy()
    running.step()
    gained = (running.array_view("vel").numpy() - before) / 1e-6
    assert gained.min() > 1.0 - 1e-2
    assert (gained < 1.0 + 1e-2).any(axis=0).all(), "and no more than that: 50 N m are a lot for this arm"


def sum_of_accelerations(dofs: Sequence[int]) -> ConstraintKind:
    """A constraint: the accelerations of two joints sum to one at least."""

    def blocks(model: Model, nodes: list[FrameNode]) -> list[ConstraintBlock]:
        own = {"solref": (-1.0, 0.0), "solimp": (HARD, HARD, 0.0, 0.5, 1.0)}
        known = {dof for node in nodes for dof in node.dofs}
        return [ConstraintBlock(RowType.LIMIT, dofs, 1, [1.0], **own, source={"sum": 0})] * known.issuperset(dofs)

    def fill(step: KinematicState, rows: ConstraintRows) -> None:
        table = [
            LoopIteration("sum", rows.block_arrays[i]) for i, block in enumerate(rows.blocks) if "sum" in block.source
        ]

        def body(code: IterationContext) -> None:
            code.write("position", [-HARD])
            code.write("jacobian 0", [1.0, 1.0])

        step.ctx.for_each("sums of accelerations", table, body)

    return ConstraintKind("sums", lambda settings: True, blocks, fill)


@pytest.mark.parametrize(("arms", "codegen"), alternating([(0, 1), (0, 0), (1, 1)], CODEGENS))
def test_a_constraint_of_some_trees(arms: tuple[int, int], codegen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two equal arms it binds those joints that its blocks name, also of both, and no others."""
    description = read(EXAMPLES / "arm" / "arm.urdf")
    parts = [EntitySpec(name=name, description=description, fixed=True) for name in ("first", "second")]
    model = build_model(parts)
    n = model.n_dofs // 2
    dofs = [arms[0] * n, arms[1] * n + 1]
    gained = []
    for kinds in ([], [sum_of_accelerations(dofs)]):
        monkeypatch.setattr("kinema.dynamics.constraints.constraint_kinds.CONSTRAINT_KINDS", kinds)
        monkeypatch.setattr("kinema.dynamics.lowering.components.CONSTRAINT_KINDS", kinds)
        running = engine(model, codegen, dt=1e-6, integrator=Integrator.EULER)
        running.array_view("command").assign(np.full((model.n_dofs, N_ENVS), -50.0))
        before = running.array_view("vel").numpy().copy()
        running.step()
        gained.append((running.array_view("vel").numpy() - before) / 1e-6)
    free, bound = gained
    sums = free[dofs].sum(axis=0)
    np.testing.assert_allclose(bound[dofs].sum(axis=0), np.maximum(sums, 1.0), rtol=0, atol=0.1)
    assert (sums < 0.0).any()
    others = [arm for arm in (0, 1) if arm not in arms]
    for arm in others:
        np.testing.assert_allclose(bound[arm * n : (arm + 1) * n], free[arm * n : (arm + 1) * n], rtol=1e-6)


@pytest.fixture
def geared() -> Iterator[int]:
    """A joint kind: a hinge that turns twice as far as its coordinate says."""
    number = 100

    def pose(node: FrameNode, q: Sequence[Value]) -> Pose:
        angle = 2.0 * (q[0] - node.reference)
        return Pose(matmul(node.rotation, axis_angle_to_matrix(node.axis, angle)), node.position)

    PRIMITIVE_JOINT_SIZES[number] = (1, 1)
    JOINT_MODELS[number] = JointModel(
        pose, lambda node, _: [Twist(scale(2.0, node.axis), ZERO)], lambda q, shift: [q[0] + shift[0]]
    )
    yield number
    del PRIMITIVE_JOINT_SIZES[number], JOINT_MODELS[number]


@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_joint_kind(geared: int, codegen: str) -> None:
    """With half the coordinates and twice the torques it moves as a hinge does."""
    plain = arm()
    infinite, zero = np.full(plain.n_dofs, np.inf), np.zeros(plain.n_dofs)
    plain = plain.with_columns("dofs", damping=zero, armature=zero, force_lower=-infinite, force_upper=infinite)
    hinges = plain.frames.joint_type == PrimitiveJointType.HINGE
    twice = plain.with_columns("frames", joint_type=np.where(hinges, np.int32(geared), plain.frames.joint_type))
    of_hinge = np.isin(plain.dofs.frame_idx, np.flatnonzero(hinges))
    ratio = np.where(of_hinge, 2.0, 1.0)[:, None]
    first, second = (engine(model, codegen, dt=0.001) for model in (plain, twice))
    push = np.random.default_rng(1).uniform(-2, 2, (plain.n_dofs, N_ENVS))
    q, v = (first.array_view(name).numpy().copy() for name in ("qpos", "vel"))
    for running, by in ((first, 1.0), (second, ratio)):
        running.array_view("qpos").assign(q / by)
        running.array_view("vel").assign(v / by)
        running.array_view("command").assign(push * by)
        running.step(50)
    np.testing.assert_allclose(
        second.array_view("qpos").numpy() * ratio, first.array_view("qpos").numpy(), rtol=0, atol=1e-9
    )
    poses = [np.array(running.fields.links_state.pos.numpy()) for running in (first, second)]
    np.testing.assert_allclose(poses[0], poses[1], rtol=0, atol=1e-9)


@pytest.fixture
def cubic() -> Iterator[str]:
    """An actuator kind: the cube of its control."""

    def force(transmission: Transmission, control: Value) -> ForceTerm:
        return ForceTerm(control * control * control, 0.0)

    ACTUATOR_FORCE_LAWS["cubic"] = force
    yield "cubic"
    del ACTUATOR_FORCE_LAWS["cubic"]


@pytest.mark.parametrize("codegen", CODEGENS)
def test_an_actuator_kind(cubic: str, codegen: str) -> None:
    file = EXAMPLES / "quadruped" / "quadruped.xml"
    model = build_model([EntitySpec(name="robot", description=read(file))])
    assert model.n_actuators
    model = model.with_columns("actuators", kinds=[cubic] * model.n_actuators)
    running = engine(model, codegen, ControlMode.ACTUATOR)
    control = np.random.default_rng(2).uniform(-0.9, 0.9, (model.n_actuators, N_ENVS))
    running.array_view("ctrl").assign(control)
    cube = np.clip(control, model.actuators.ctrl_lower[:, None], model.actuators.ctrl_upper[:, None]) ** 3
    cube = np.clip(cube, model.actuators.force_lower[:, None], model.actuators.force_upper[:, None])
    expected = model.actuators.moment.T @ cube
    bounds = model.dofs.effort_lower[:, None], model.dofs.effort_upper[:, None]
    found = running.fields.dofs_state.qf_actuator.numpy()
    np.testing.assert_allclose(found, np.clip(expected, *bounds), rtol=1e-12, atol=1e-12)
    assert np.abs(found).max() > 0.1


def test_extensions_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two laws of one name, for one model and equal settings: the second is not mistaken for the first."""
    model = build_model([EntitySpec(name="robot", description=read(EXAMPLES / "quadruped" / "quadruped.xml"))])
    model = model.with_columns("actuators", kinds=["constant"] * model.n_actuators)
    found = []
    for constant in (0.25, 0.5):
        monkeypatch.setitem(ACTUATOR_FORCE_LAWS, "constant", lambda _, control, f=constant: ForceTerm(f, 0.0))
        assert has_external_extensions()
        running = engine(model, "loops", ControlMode.ACTUATOR)
        found.append(running.fields.dofs_state.qf_actuator.numpy().copy())
    np.testing.assert_allclose(found[1], 2.0 * found[0], rtol=1e-12)
    assert np.abs(found[0]).max() > 0.1
    monkeypatch.undo()
    assert not has_external_extensions(), f"other functions are all of Kinema, in {REGISTRIES}"


def half_square(ends: Sequence[Pose], parameters: Sequence[Value], kind: str, tracer: Tracer) -> MeasuredSegment:
    """A transmission path segment: half the squared distance of two points."""
    a, b = ends[0].position, ends[1].position
    offset = sub(b, a)
    return MeasuredSegment(0.5 * dot(offset, offset), [EndLoad([(scale(-1.0, offset), a)]), EndLoad([(offset, b)])])


def constant_pull(tendon: Transmission, dt: Value) -> ForceTerm:
    """A law of tendons: they pull with a constant force, whatever their length."""
    (stiffness,) = tendon.read("stiffness")
    return ForceTerm(-stiffness, 0.0)


STIFFNESS, DAMPING, REST = 300.0, 4.0, 0.2
LENGTHS: dict[str, Callable[[Array], Array]] = {"straight": lambda x: x, "half square": lambda x: 0.5 * x * x}
PULLS: dict[str, Callable[[Array, Array], Array]] = {
    "spatial": lambda length, velocity: -STIFFNESS * (length - REST) - DAMPING * velocity,
    "constant": lambda length, velocity: np.full_like(length, -STIFFNESS),
}
SPRUNG_LINKS = "shoulder_link", "wrist_3_link"


def sprung_arm() -> Model:
    """The example arm with a spring and a damper between the origins of two links."""
    robot = read(EXAMPLES / "arm" / "arm.urdf")
    assert isinstance(robot, Robot)
    robot.frames += [Frame(name=f"end on {link}", link=link) for link in SPRUNG_LINKS]
    path = [TendonPathItem(kind=TendonPathKind.SITE, target=f"end on {link}") for link in SPRUNG_LINKS]
    spring = Tendon(name="spring", path=path, stiffness=STIFFNESS, damping=DAMPING, spring_length=(REST, REST))
    robot.tendons.append(spring)
    return build_model([EntitySpec(name="arm", description=robot, fixed=True)])


@pytest.mark.parametrize(
    ("segment", "law", "codegen"),
    representative_tuples(
        (
            (*case, codegen)
            for codegen in CODEGENS
            for case in (("straight", "spatial"), ("half square", "spatial"), ("straight", "constant"))
        ),
        lambda case: (case[2] == "loops") == (case[:2] == ("half square", "spatial")),
    ),
)
def test_a_force_between_points(segment: str, law: str, codegen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A spring and damper needs no new code; a path segment and a tendon law of one's own do as they say."""
    monkeypatch.setitem(SEGMENT_KINDS, "half square", (2, half_square))
    monkeypatch.setitem(TENDON_FORCE_LAWS, "constant", constant_pull)
    plain, model = arm(), sprung_arm()
    model = model.with_columns("path_segments", kinds=[segment]).with_columns("tendons", kinds=[law])
    without, sprung = (engine(each, codegen) for each in (plain, model))
    q, v = (sprung.array_view(name).numpy().copy() for name in ("qpos", "vel"))

    def length_at(q: Array) -> Array:
        without.array_view("qpos").assign(q)
        positions = without.fields.links_state.pos.numpy()
        first, second = (positions[plain.links.names.index(link)] for link in SPRUNG_LINKS)
        return LENGTHS[segment](np.linalg.norm(second - first, axis=1))

    force = without.fields.dofs_state.force.numpy().copy()
    h = 1e-6
    shifts = h * np.eye(model.n_dofs)[:, :, None]
    moment = np.array([length_at(q + shift) - length_at(q - shift) for shift in shifts]) / (2.0 * h)
    expected = moment * PULLS[law](length_at(q), (moment * v).sum(axis=0))
    np.testing.assert_allclose(sprung.fields.dofs_state.force.numpy() - force, expected, rtol=0, atol=1e-5)
    assert np.abs(expected).max() > 1.0


FLOATING = """<mujoco><option gravity="0 0 0" density="1" viscosity="1"/><worldbody><body><freejoint/>
<geom type="sphere" size="0.1" mass="2"/></body></worldbody></mujoco>"""
DRAG = 30.0


def linear_drag(code: IterationContext, density: Value, viscosity: Value, velocity: Twist) -> Wrench:
    """A fluid force: proportional to the velocity of the body's centre."""
    return Wrench(ZERO, scale(-code.constant("drag"), velocity.linear))


def linear_drag_derivative(
    code: IterationContext, density: Value, viscosity: Value, velocity: Twist
) -> WrenchDerivative:
    return WrenchDerivative(ZERO_MATRIX, ZERO_MATRIX, ZERO_MATRIX, diagonal_matrix([-code.constant("drag")] * 3))


@pytest.mark.parametrize(
    ("codegen", "integrator"), alternating(CODEGENS, [Integrator.EULER, Integrator.IMPLICITFAST, Integrator.IMPLICIT])
)
def test_a_fluid_force(codegen: str, integrator: Integrator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the closed form of one step, explicit or implicit."""
    law = FluidLaw(linear_drag, linear_drag_derivative, lambda info, row: {"drag": [DRAG]})
    monkeypatch.setitem(FLUID_LAWS, "linear", law)
    (tmp_path / "floating.xml").write_text(FLOATING, encoding="utf-8")
    model = build_model([EntitySpec(name="floating", description=read(tmp_path / "floating.xml"))])
    model = model.with_columns("fluid", kinds=["linear"])
    running = engine(model, codegen, dt=0.01, integrator=integrator)
    running.array_view("qpos").assign(np.repeat(model.qpos0[:, None], N_ENVS, axis=1))
    before = running.array_view("vel").numpy().copy()[:3]
    running.step()
    ratio = 0.01 * DRAG / 2.0
    factor = 1.0 - ratio if integrator is Integrator.EULER else 1.0 / (1.0 + ratio)
    np.testing.assert_allclose(running.array_view("vel").numpy()[:3], factor * before, rtol=1e-9)


BALLS = """<mujoco><option gravity="0 0 0"/><worldbody>
<body name="a"><freejoint/><geom type="ellipsoid" size="0.1 0.1 0.1"/></body>
<body name="b" pos="0.19 0 0"><freejoint/><geom type="ellipsoid" size="0.1 0.1 0.1"/></body></worldbody></mujoco>"""


def collide_along_y(query: ContactQuery, a: CollisionGeom, b: CollisionGeom) -> None:
    """A pair of shapes that always touches between the centres, by a hundredth, and pushes along y."""
    query.emit_contact(-0.01, scale(0.5, sub(b.position, scale(-1.0, a.position))), (0.0, 1.0, 0.0))


@pytest.mark.parametrize("codegen", representatives(CODEGENS, 1))
def test_a_collision_pair(codegen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It replaces the general algorithm, in the plan of the memory too."""
    kinds = ("ellipsoid", "ellipsoid")
    monkeypatch.setitem(ANALYTIC_COLLISION_TABLE, kinds, AnalyticPair(collide_along_y, 1))
    (tmp_path / "balls.xml").write_text(BALLS, encoding="utf-8")
    parts = [EntitySpec(name="balls", description=read(tmp_path / "balls.xml"))]
    running = engine(build_model(parts, with_contacts=True), codegen, dt=0.001, contacts=True)
    running.array_view("qpos").assign(np.repeat(running.model.qpos0[:, None], N_ENVS, axis=1))
    running.array_view("vel").assign(np.zeros((running.model.n_dofs, N_ENVS)))
    running.step()
    velocities = running.array_view("vel").numpy()
    a, b = velocities[:3], velocities[6:9]
    assert (a[1] < -1e-3).all()
    np.testing.assert_allclose(b, -a, atol=1e-12)
    np.testing.assert_allclose(a[[0, 2]], 0.0, atol=1e-9)


@pytest.mark.parametrize("kinds", [("ellipsoid", "sphere"), ("sphere", "ball")])
def test_a_collision_pair_that_would_be_ignored(kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Geom types in the wrong order, and unknown ones, are errors when memory is planned and contacts are traced."""
    monkeypatch.setitem(ANALYTIC_COLLISION_TABLE, kinds, AnalyticPair(collide_along_y, 1))
    for table in (max_contacts_by_types, get_collision_table):
        with pytest.raises(InternalError, match="not two geom types in the order"):
            table(multiccd=True)


def test_analytic_pairs_are_imported_when_they_are_called() -> None:
    """Memory is planned without importing a contact function, and every name in the table is one."""
    code = (
        "import sys; from kinema.dynamics.collision.contact_buffer_specs import max_contacts_by_types\n"
        "assert max_contacts_by_types(multiccd=True)['box', 'box'] == 8\n"
        "assert not {x.rpartition('.')[2] for x in sys.modules} & {'box_box', 'plane_pairs', 'collision_table'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for pair, entry in ANALYTIC_COLLISION_TABLE.items():
        assert entry.collide.__name__ == f"collide_{'_'.join(pair)}"


def measure_height(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """A sensor: the height of a link."""
    compute(data, "link_bodies")
    ctx, bodies = data.ctx, data.link_bodies
    rows = [
        outputs.frame_iteration(i, bindings={"measured ": link_ref(int(outputs.info.target_idx[i]))})
        for i in output_indices
    ]
    ctx.for_each(
        "heights", rows, lambda code: write_sensor_output(code, [bodies[link_ref("measured ")].pose.position[2]])
    )


@pytest.fixture
def height(monkeypatch: pytest.MonkeyPatch) -> Model:
    """A sensor kind, and the arm with a sensor of this kind on its last link."""
    monkeypatch.setitem(SENSOR_KINDS, "link height", SensorKind(SensorTarget.LINK, 1, measure_height))
    robot = read(EXAMPLES / "arm" / "arm.urdf")
    robot.sensors.append(Sensor(name="height", kind="link height", target_kind="link", target=SPRUNG_LINKS[1]))
    return build_model([EntitySpec(name="arm", description=robot, fixed=True)], sensors=())


@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_sensor(height: Model, codegen: str) -> None:
    running = engine(height, codegen)
    expected = running.fields.links_state.pos.numpy()[height.links.names.index(SPRUNG_LINKS[1]), :, 2]
    np.testing.assert_allclose(running.fields.sensors.sensordata.numpy(), expected[None], rtol=0, atol=1e-12)


def test_a_sensor_that_nothing_measures(height: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not read zero in silence."""
    monkeypatch.delitem(SENSOR_KINDS, "link height")
    with pytest.raises(InternalError, match=r"no function in `SENSOR_KINDS` .* measures outputs of kind 'link height'"):
        _ = engine(height, "loops").fields.sensors.sensordata


@pytest.mark.parametrize(
    ("table", "column", "message"),
    [
        ("path_segments", "kinds", "no path segment .* for 'unheard of'; there are 'straight'"),
        ("tendons", "kinds", "no tendon force law .* for 'unheard of'; there are 'fixed'"),
    ],
)
def test_a_kind_that_there_is_not(table: str, column: str, message: str) -> None:
    """The message names the registry, and what it has."""
    with pytest.raises(InternalError, match=message):
        engine(sprung_arm().with_columns(table, **{column: ["unheard of"]}), "loops").step()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"invweights": [1.0, 1.0]}, "invweights has 2 values instead of 1"),
        ({"solimp": (0.9, 0.95)}, "solimp has 2 values instead of 5"),
        ({"dofs": [1, 1]}, r"dofs are \[1, 1\], and must be distinct"),
        ({"parameter_group": "limits"}, "no parameter group 'limits'"),
    ],
)
def test_a_block_that_is_wrong(wrong: dict[str, object], message: str) -> None:
    """The message names the block by its source."""
    right = {
        "dofs": [0],
        "n_rows": 1,
        "invweights": [1.0],
        "solref": (0.02, 1.0),
        "solimp": (0.9, 0.95, 0.001, 0.5, 2.0),
    }
    with pytest.raises(InternalError, match=rf"constraint block limit \[\('urge', 3\)\]: .*{message}"):
        ConstraintBlock(RowType.LIMIT, **{**right, **wrong}, source={"urge": 3})  # type: ignore[arg-type]


def test_names_in_the_guide() -> None:
    """The files that `CONTRIBUTING.md` names exist, and the registries are in the files that are named with them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text[text.index("## Extending the simulator") : text.index("## Commits")]
    source = ROOT / "src" / "kinema"
    files = {str(file.relative_to(source)): file.read_text(encoding="utf-8") for file in source.rglob("*.py")}
    for path in re.findall(r"`([\w/]+\.py)`", section):
        assert any(file.endswith(path) for file in files) or (ROOT / path).exists(), path
    for name, path in re.findall(r"`([A-Z][A-Z_]+)`\s+\(`([\w/]+\.py)`", section):
        found = [file for file, code in files.items() if re.search(rf"^{name}\b.* = ", code, re.MULTILINE)]
        assert any(file.endswith(path) for file in found), f"{name} is in {found}, not in {path}"
    for field in ("is_enabled", "make_blocks", "fill_rows", "count_near", "follows_from_tables"):
        assert f"`{field}`" in section
        assert field in {x.name for x in fields(ConstraintKind)}


@pytest.fixture
def power() -> Iterator[None]:
    """A field: the power that all forces together put into each joint."""

    def write(now: StepData) -> None:
        compute(now, "qfrc_smooth")
        s, force = now.ctx, now.qfrc_smooth

        def body(node: FrameNode) -> None:
            s.write("power", node, [f * v for f, v in zip(force[node.ref], s.read_node("vel", node), strict=True)])

        s.for_each_frame("power", body)

    info = FieldInfo("power", "toy", (), "W", "what all forces together put in")
    NAMESPACES["dofs_state"].append(info)
    FIELD_GROUPS["toy"] = write
    yield
    NAMESPACES["dofs_state"].remove(info)
    del FIELD_GROUPS["toy"]


@pytest.mark.parametrize("codegen", CODEGENS)
def test_a_field(power: None, codegen: str) -> None:
    running = engine(arm(), codegen)
    running.step(3)
    dofs = running.fields.dofs_state
    expected = dofs.force.numpy() * running.array_view("vel").numpy()
    np.testing.assert_allclose(dofs.power.numpy(), expected, rtol=1e-12, atol=1e-12)
    assert "power" in dir(dofs)
