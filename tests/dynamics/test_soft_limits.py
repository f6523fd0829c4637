"""Limits with a stiffness, a damping or a bounce of their own, as USD and SDFormat have them, beside closed forms."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.core import Diagnostics, collect
from kinema.dynamics import Engine
from kinema.read import read
from kit.robots.each_joint import model_of

from .constrained import assign, constrained_engine

MASS, STIFFNESS, DAMPING, STOP, SPEED = 2.0, 800.0, 12.0, 0.1, 1.5
HINGE = 0.05
"""Inertia of what turns [kg m2]."""
STAGE = """#usda 1.0
(
    metersPerUnit = {length}
    kilogramsPerUnit = 1
    upAxis = "Z"
    defaultPrim = "w"
)
def Xform "w"
{{
    def PhysicsScene "s"
    {{
    }}
    def Cube "a" (prepend apiSchemas = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"])
    {{
        float physics:mass = 2
        float3 physics:diagonalInertia = ({inertia}, {inertia}, {inertia})
        double size = 0.1
    }}
    def {kind} "j"
    {{
        rel physics:body1 = </w/a>
        uniform token physics:axis = "X"
        float physics:upperLimit = {upper}
        {more}
    }}
}}
"""
DEGREE = math.pi / 180.0


def engine_of(folder: Path, *, turns: bool = False, length: float = 1.0, more: str = "") -> Engine:
    """A cube on a slide or a hinge with an upper limit, in a stage of some unit."""
    text = STAGE.format(
        length=length,
        inertia=HINGE / length**2,
        kind="PhysicsRevoluteJoint" if turns else "PhysicsPrismaticJoint",
        upper=STOP / DEGREE if turns else STOP / length,
        more=more,
    )
    file = folder / "stop.usda"
    file.write_text(text, encoding="utf-8")
    robot = read(file, policy=collect)
    engine = constrained_engine(model_of(robot, gravity=(0, 0, 0)), dt=1e-4)  # type: ignore[arg-type]
    assign(engine, {"vel": np.array([[SPEED]])})
    return engine


def meet(engine: Engine, steps: int = 4000) -> tuple[float, float]:
    """How far it goes beyond its limit, and with which share of its speed it leaves."""
    deepest = 0.0
    for _ in range(steps // 10):
        engine.step(10)
        deepest = max(deepest, float(engine.array_view("qpos").numpy()[0, 0]) - STOP)
    return deepest, -float(engine.array_view("vel").numpy()[0, 0]) / SPEED


def spring_and_damper(inertia: float, stiffness: float, damping: float) -> tuple[float, float]:
    """The same in closed form: a damped swing until it no longer pushes."""
    omega = math.sqrt(stiffness / inertia)
    z = damping / (2 * inertia * omega)
    w = omega * math.sqrt(1 - z * z)
    turn = math.atan2(math.sqrt(1 - z * z), z) / w
    deepest = SPEED / w * math.exp(-z * omega * turn) * math.sin(w * turn)
    return deepest, math.exp(-z / math.sqrt(1 - z * z) * (math.pi - 2 * math.asin(z)))


PHYSX = "float physxLimit:linear:stiffness = {k}\n        float physxLimit:linear:damping = {c}"
NEWTON = "float newton:limitStiffness = {k}\n        float newton:limitDamping = {c}"


@pytest.mark.parametrize("words", [PHYSX, NEWTON], ids=["physx", "newton"])
@pytest.mark.parametrize("length", [1.0, 0.01])
def test_a_slide_with_a_spring_at_its_end(tmp_path: Path, words: str, length: float) -> None:
    """It goes as deep, and comes back as fast, as a spring and a damper would have it, whatever the stage's unit."""
    more = words.format(k=STIFFNESS, c=DAMPING)  # force over length has no length in it
    found = meet(engine_of(tmp_path, length=length, more=more))
    assert found == pytest.approx(spring_and_damper(MASS, STIFFNESS, DAMPING), rel=2e-2)


def test_a_hinge_with_a_spring_at_its_end(tmp_path: Path) -> None:
    """Stiffness and damping of angles are per degree."""
    k, c = 20.0, 0.4
    more = PHYSX.replace("linear", "angular").format(k=k * DEGREE, c=c * DEGREE)
    found = meet(engine_of(tmp_path, turns=True, more=more))
    assert found == pytest.approx(spring_and_damper(HINGE, k, c), rel=2e-2)


def test_a_spring_that_no_step_could_carry(tmp_path: Path) -> None:
    """Stiff beyond all measure, at a time step a thousand times its period: it stops, and nothing flies away."""
    engine = engine_of(tmp_path, more=PHYSX.format(k=1e12, c=0.0))
    engine.dt = 0.01
    engine.step(500)
    assert abs(float(engine.array_view("vel").numpy()[0, 0])) <= SPEED
    assert float(engine.array_view("qpos").numpy()[0, 0]) < STOP + 1e-3


@pytest.mark.parametrize("bounce", [0.2, 0.7])
def test_a_limit_that_bounces(tmp_path: Path, bounce: float) -> None:
    """It gives back the share of the speed that its restitution says."""
    deepest, back = meet(engine_of(tmp_path, more=f"float physxLimit:linear:restitution = {bounce}"))
    assert back == pytest.approx(bounce, abs=5e-3)
    assert deepest < 0.05


def test_sdf(tmp_path: Path) -> None:
    """The same in SDFormat."""
    text = f"""<sdf version="1.11"><model name="m"><link name="a"><inertial><mass>{MASS}</mass></inertial></link>
<joint name="j" type="prismatic"><parent>world</parent><child>a</child><axis><xyz>1 0 0</xyz><limit><lower>-9</lower>
<upper>{STOP}</upper><stiffness>{STIFFNESS}</stiffness><dissipation>{DAMPING}</dissipation></limit></axis></joint>
</model></sdf>"""
    file = tmp_path / "stop.sdf"
    file.write_text(text, encoding="utf-8")
    engine = constrained_engine(model_of(read(file), gravity=(0, 0, 0)), dt=1e-4)  # type: ignore[arg-type]
    assign(engine, {"vel": np.array([[SPEED]])})
    assert meet(engine) == pytest.approx(spring_and_damper(MASS, STIFFNESS, DAMPING), rel=2e-2)


def test_a_range_that_ends_before_it_begins_is_no_range(tmp_path: Path) -> None:
    """Two limits that nothing can keep at once would push for ever: both are left out, as in written MJCF."""
    (tmp_path / "r.urdf").write_text(
        '<robot name="r"><link name="a"/><link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" '
        'ixy="0" ixz="0" iyz="0"/></inertial></link><joint name="j" type="revolute"><parent link="a"/>'
        '<child link="b"/><limit lower="1" upper="-1" effort="1" velocity="1"/></joint></robot>'
    )
    diagnostics = Diagnostics(policy=collect)
    model = build_model(
        [EntitySpec(name="r", description=read(tmp_path / "r.urdf", policy=collect))], None, diagnostics
    )
    assert (model.dofs.lower.tolist(), model.dofs.upper.tolist()) == ([-np.inf], [np.inf])
    assert [d.code for d in diagnostics if d.code == "sim.reversed-limits"]
