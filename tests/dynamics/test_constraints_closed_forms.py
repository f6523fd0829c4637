"""Linkages, followers, friction and stops beside what books say of them; and loops in every format."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.core import Array, Diagnostics, Pose, axis_angle_to_matrix, collect
from kinema.description import Joint, JointKind, Link, Robot, SolverParameters, World, rotation, translation
from kinema.dynamics import Engine, Integrator
from kinema.model import Model
from kinema.read import read
from kinema.write import write
from kit.assets import EXAMPLES, assets
from kit.choosing import representative_tuples
from kit.robots.configurations import by_joint
from kit.robots.each_joint import model_of, one_joint, simple_body
from kit.robots.small_robots import body

from .constrained import assign, constrained_engine

HARDEST = (0.9999, 0.9999, 0.001, 0.5, 2.0)


def hinged(
    name: str, parent: str, child: str, at: Iterable[float] = (0, 0, 0), angle: float = 0.0, **settings: object
) -> Joint:
    """Positive angles turn x towards z; at zero it is turned by an angle already."""
    place = Pose(np.array(list(at), dtype=float), axis_angle_to_matrix((0, -1, 0), angle))
    own: dict[str, object] = {"kind": JointKind.CONTINUOUS, "parent_pose": place, "axes": [rotation((0, -1, 0))]}
    return Joint(name=name, parent=parent, child=child, **{**own, **settings})  # type: ignore[arg-type]


def bar(name: str, length: float) -> Link:
    """Along x."""
    return body(name, 1.0, (length / 2, 0.0, 0.0), 0.01)


def coordinates(engine: Engine, env: int = 0) -> dict[str, Array]:
    """By joint."""
    return by_joint(engine.model, np.array(engine.array_view("qpos").numpy()[:, env], dtype=float))


def run(engine: Engine, steps: int, every: int = 1) -> list[dict[str, Array]]:
    """Coordinates by joint, now and then."""
    found = []
    for _ in range(steps // every):
        engine.step(every)
        found.append(coordinates(engine))
    return found


def place(model: Model, **joints: float) -> Array:
    """Coordinates with those of some joints."""
    q = model.qpos0.copy()
    for name, value in joints.items():
        q[model.joints.q_start[model.joints.names.index(name)]] = value
    return q[:, None]


def push(engine: Engine, **joints: float) -> None:
    """Forces on some joints."""
    names, model = engine.model.joints.names, engine.model
    command = np.zeros((model.n_dofs, engine.n_envs))
    for name, force in joints.items():
        command[model.joints.dof_start[names.index(name)]] = force
    engine.array_view("command").assign(command)


def gaps(robot: Robot, q: dict[str, Array]) -> float:
    """How far the frames of joints that close loops are apart [m], at most."""
    poses = robot.link_poses(q)
    ends = [
        (poses[j.parent] @ j.parent_pose, poses[j.child] @ j.child_pose)
        for j in robot.tree().loops
        if j.parent is not None and j.child is not None
    ]
    return max(float(np.linalg.norm(a.position - b.position)) for a, b in ends)


# ------------------------------------------------------------------------------------------------------------ linkages

GROUND, CRANK, COUPLER, ROCKER = 1.0, 0.3, 0.9, 0.7
START = 0.4
"""The crank's angle where its coordinate is zero."""


def freudenstein(crank: float) -> float:
    """The rocker's angle: K1 cos(rocker) - K2 cos(crank) + K3 = cos(crank - rocker), the branch that starts above."""
    k1, k2 = GROUND / CRANK, GROUND / ROCKER
    k3 = (CRANK**2 - COUPLER**2 + ROCKER**2 + GROUND**2) / (2 * CRANK * ROCKER)
    a = math.cos(crank) - k1 - k2 * math.cos(crank) + k3
    b = -2 * math.sin(crank)
    c = k1 - (k2 + 1) * math.cos(crank) + k3
    return 2 * math.atan2(-b - math.sqrt(b * b - 4 * a * c), 2 * a)


def four_bar(damping: float = 0.0) -> Robot:
    """Crank and rocker on the ground, the coupler on the crank; its pin in the rocker closes the loop."""
    ends = [np.array([CRANK * math.cos(START), CRANK * math.sin(START)]), np.array([GROUND, 0.0])]
    ends[1] += ROCKER * np.array([math.cos(freudenstein(START)), math.sin(freudenstein(START))])
    along = math.atan2(*(ends[1] - ends[0])[::-1])
    loop = hinged("pin", "rocker", "coupler", (ROCKER, 0, 0), child_pose=Pose.translation((COUPLER, 0, 0)))
    loop.closes_loop = True
    joints = [
        hinged("crank", "ground", "crank", angle=START, axes=[rotation((0, -1, 0), damping=damping)]),
        hinged("elbow", "crank", "coupler", (CRANK, 0, 0), angle=along - START),
        hinged("rocker", "ground", "rocker", (GROUND, 0, 0), angle=freudenstein(START)),
        loop,
    ]
    links = [Link(name="ground"), bar("crank", CRANK), bar("coupler", COUPLER), bar("rocker", ROCKER)]
    return Robot(name="four bars", links=links, joints=joints, root="ground")


@pytest.mark.parametrize("precision", ["single", "double"])
def test_four_bar_linkage(precision: str) -> None:
    """A crank that is driven over a turn: the rocker goes where Freudenstein's equation has it, to 1e-4."""
    robot = four_bar(damping=8.0)
    model = model_of(robot, gravity=(0, 0, 0))
    engine = constrained_engine(model, dt=1e-3, precision=precision)
    assert gaps(robot, coordinates(engine)) < 1e-12
    push(engine, crank=24.0)
    worst, turned = 0.0, 0.0
    for q in run(engine, 4000, 10):
        turned = START + float(q["crank"][0])
        rocker = freudenstein(START) + float(q["rocker"][0])
        off = math.remainder(rocker - freudenstein(turned), 2 * math.pi)
        worst = max(worst, abs(off), gaps(robot, q))
        if turned > START + 2 * math.pi:
            break
    print(f"worst {worst:.1e} after {turned / 2 / math.pi:.1f} turns")
    assert turned > START + 2 * math.pi
    assert worst < 1e-4


@pytest.mark.parametrize("codegen", ["unrolled", "loops"])
def test_slider_crank(codegen: str) -> None:
    """The slider is at r cos(a) + sqrt(l^2 - r^2 sin(a)^2), to 1e-4; its pin may close the loop, or its guide."""
    radius, rod = 0.2, 0.6
    links = [Link(name="ground"), bar("crank", radius), bar("rod", rod), body("slider", 0.5, inertia=0.001)]
    joints = [
        hinged("crank", "ground", "crank", axes=[rotation((0, -1, 0), damping=2.0)]),
        hinged("rod", "crank", "rod", (radius, 0, 0)),
        Joint(name="guide", kind=JointKind.PRISMATIC, parent="ground", child="slider", axes=[translation((1, 0, 0))]),
        hinged("pin", "rod", "slider", (rod, 0, 0)),
    ]
    for loop, start in (("pin", {"guide": radius + rod}), ("guide", {})):
        for joint in joints:
            joint.closes_loop = joint.name == loop
        robot = Robot(name="engine", links=links, joints=joints, root="ground")
        model = model_of(robot, gravity=(0, 0, 0))
        engine = constrained_engine(model, dt=1e-3, codegen=codegen)
        assign(engine, {"qpos": place(model, **start)})
        push(engine, crank=8.0)
        worst, turned = 0.0, 0.0
        for q in run(engine, 4000, 20):
            turned = float(q["crank"][0])
            expected = radius * math.cos(turned) + math.sqrt(rod**2 - (radius * math.sin(turned)) ** 2)
            position = robot.link_poses(q)["slider"].position
            worst = max(worst, float(np.abs(position - [expected, 0, 0]).max()))
            if turned > 2 * math.pi:
                break
        print(f"worst {worst:.1e} after {turned / 2 / math.pi:.1f} turns, closed by the {loop}")
        assert turned > 2 * math.pi
        assert worst < 1e-4


def test_cardan_joint() -> None:
    """Two shafts that meet at an angle: tan(out) = tan(in) cos(angle), to 1e-4, over a turn."""
    angle = 0.5
    tilt = Pose(rotation=axis_angle_to_matrix((0, 1, 0), -angle))  # x along the second shaft
    damped = rotation((1, 0, 0), damping=0.25)
    shafts = [body(name, 1.0, inertia=0.02) for name in ("first", "second")]
    joints = [
        Joint(name="in", kind=JointKind.CONTINUOUS, parent="ground", child="first", axes=[damped]),
        Joint(
            name="out",
            kind=JointKind.CONTINUOUS,
            parent="ground",
            child="second",
            parent_pose=tilt,
            axes=[rotation((1, 0, 0))],
        ),
        Joint(
            name="cross",
            kind=JointKind.UNIVERSAL,
            parent="first",
            child="second",
            child_pose=tilt.inverse(),
            axes=[rotation((0, 1, 0)), rotation(tilt.rotation[:, 2])],
            closes_loop=True,
        ),
    ]
    robot = Robot(name="cardan", links=[Link(name="ground"), *shafts], joints=joints, root="ground")
    engine = constrained_engine(model_of(robot, gravity=(0, 0, 0)), dt=1e-3)
    push(engine, **{"in": 1.0, "out": -0.2})
    worst, turned = 0.0, 0.0
    for q in run(engine, 6000, 20):
        turned, out = float(q["in"][0]), float(q["out"][0])
        expected = math.atan2(math.sin(turned) * math.cos(angle), math.cos(turned))
        worst = max(worst, abs(math.remainder(out - expected, 2 * math.pi)))
        if turned > 2 * math.pi:
            break
    print(f"worst {worst:.1e}")
    assert turned > 2 * math.pi
    assert worst < 1e-4


MIMIC = """<robot name="pair"><link name="base"/>{links}
<joint name="lead" type="revolute"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" effort="50" velocity="9"/></joint>
<joint name="follow" type="revolute"><parent link="base"/><child link="b"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" effort="50" velocity="9"/><mimic joint="lead" multiplier="-0.5" offset="0.2"/></joint>
<joint name="push" type="prismatic"><parent link="b"/><child link="c"/><axis xyz="1 0 0"/>
<limit lower="-3" upper="3" effort="50" velocity="9"/><mimic joint="follow" multiplier="0.3" offset="-0.1"/></joint>
</robot>"""
MIMIC = MIMIC.format(
    links="".join(
        f'<link name="{x}"><inertial><origin xyz="0.2 0 0"/><mass value="2"/>'
        '<inertia ixx="0.02" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        for x in "abc"
    )
)


def mimics(folder: Path) -> Robot | World:
    file = folder / "pair.urdf"
    file.write_text(MIMIC, encoding="utf-8")
    return read(file, policy=collect)


@pytest.mark.parametrize(("precision", "dt"), [("single", 1e-3), ("double", 0.016)])
def test_mimics_hold_under_load(tmp_path: Path, precision: str, dt: float) -> None:
    """Followers, and followers of followers, are where they belong to 1e-4, while they are pushed and pulled."""
    model = build_model([EntitySpec(name="pair", description=mimics(tmp_path), fixed=True)], diagnostics=Diagnostics())
    engine = constrained_engine(model, dt=dt, precision=precision)
    assign(engine, {"qpos": place(model, follow=0.2, push=-0.04)})
    worst = 0.0
    for k in range(20):
        push(engine, lead=3.0 * math.sin(0.4 * k), follow=-15.0 * (-1) ** k, push=30.0 * (-1) ** k)
        for q in run(engine, round(0.05 / dt)):
            lead, follow, slide = (float(q[name][0]) for name in ("lead", "follow", "push"))
            worst = max(worst, abs(follow + 0.5 * lead - 0.2), abs(slide - 0.3 * follow + 0.1))
    print(f"worst {worst:.1e}")
    assert worst < 1e-4


FINGERS = """<robot name="fingers"><link name="base"/>{links}
<joint name="lead" type="prismatic"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/>
<limit lower="-1" upper="1" effort="500" velocity="9"/></joint>
<joint name="follow" type="prismatic"><parent link="base"/><child link="b"/><axis xyz="0 -1 0"/>
<limit lower="-1" upper="1" effort="500" velocity="9"/><mimic joint="lead"/></joint></robot>"""


def test_light_fingers_hold_a_heavy_load(tmp_path: Path) -> None:
    """Two fingers of 15 g squeeze with 100 N and are pulled about, at 10 ms in single precision, and stay together."""
    inertia = '<inertia ixx="1e-5" iyy="1e-5" izz="1e-5" ixy="0" ixz="0" iyz="0"/>'
    body = f'<inertial><mass value="0.015"/>{inertia}</inertial>'
    links = "".join(f'<link name="{x}">{body}</link>' for x in "ab")
    (tmp_path / "fingers.urdf").write_text(FINGERS.format(links=links), encoding="utf-8")
    engine = constrained_engine(compiled(read(tmp_path / "fingers.urdf")), dt=0.01, precision="single")
    worst = 0.0
    for k in range(40):
        sign = (-1.0) ** (k // 5)
        push(engine, lead=99.0 * sign, follow=-100.0 * sign)
        for q in run(engine, 5):
            worst = max(worst, abs(float(q["lead"][0]) - float(q["follow"][0])))
    print(f"worst {worst:.1e}")
    assert worst < 1e-6


# ----------------------------------------------------------------------------------------------------- friction, stops


def test_coulomb_oscillator() -> None:
    """A mass on a spring with dry friction loses twice force over stiffness with each half swing, and sticks."""
    mass, stiffness, friction, start = 2.0, 50.0, 1.5, 0.5
    axis = translation((1, 0, 0), stiffness=stiffness, friction=friction)
    axis.friction_solver = SolverParameters(solref=(1e-9, 1.0), solimp=HARDEST)
    model = model_of(one_joint(JointKind.PRISMATIC, simple_body(mass, (0.1, 0.1, 0.1)), axes=[axis]), gravity=(0, 0, 0))
    engine = constrained_engine(model, dt=2e-4)
    assign(engine, {"qpos": np.array([[start]])})
    x = np.array([float(q["j"][0]) for q in run(engine, 30000, 2)])
    turns = [start, *(x[i] for i in range(1, len(x) - 1) if (x[i] - x[i - 1]) * (x[i + 1] - x[i]) < 0)]
    loss, n_swings = 2 * friction / stiffness, 0
    while start - n_swings * loss > friction / stiffness:
        n_swings += 1
    expected = [(start - k * loss) * (-1) ** k for k in range(n_swings + 1)]
    assert turns[: n_swings + 1] == pytest.approx(expected[: len(turns)], abs=1e-3)
    assert x[-1] == pytest.approx(expected[-1], abs=1e-3)
    assert abs(x[-1] - x[-1000]) < 1e-5, "and there it stays"


@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("integrator", [Integrator.IMPLICITFAST, Integrator.RK4], ids=lambda i: i.value)
def test_rebound_from_a_stop(ratio: float, integrator: Integrator) -> None:
    """A stop pushes and never pulls: speeds are as exp(-z / sqrt(1 - z^2) (pi - 2 asin z)), z its damping ratio."""
    axis = translation((1, 0, 0), upper=0.1)
    axis.limit_solver = SolverParameters(solref=(0.02 / ratio, ratio), solimp=(0.95, 0.95, 0.001, 0.5, 2.0))
    model = model_of(one_joint(JointKind.PRISMATIC, simple_body(3.0, (0.1, 0.1, 0.1)), axes=[axis]), gravity=(0, 0, 0))
    engine = constrained_engine(model, dt=1e-4, integrator=integrator)
    assign(engine, {"vel": np.array([[2.0]])})
    engine.step(4000)
    expected = math.exp(-ratio / math.sqrt(1 - ratio**2) * (math.pi - 2 * math.asin(ratio)))
    assert float(engine.array_view("qpos").numpy()[0, 0]) < 0.1
    assert -float(engine.array_view("vel").numpy()[0, 0]) / 2.0 == pytest.approx(expected, abs=4e-3)


# ------------------------------------------------------------------------------------------------ loops in all formats


def compiled(described: Robot | World) -> Model:
    return build_model([EntitySpec(name="it", description=described, fixed=True)], diagnostics=Diagnostics())


def test_gripper() -> None:
    """The example gripper, driven from open to closed and back: its loops stay closed to 1e-4 m, both sides alike."""
    robot = read(EXAMPLES / "gripper" / "gripper.sdf")
    assert isinstance(robot, Robot)
    engine = constrained_engine(compiled(robot), dt=1e-3, precision="single")
    open_by, apart, tilted, widest = 0.0, 0.0, 0.0, []
    for k in range(4):
        push(engine, left_driver_joint=0.3 * (-1) ** k)
        for q in run(engine, 600, 20):
            left, right, tip = (float(q[f"{x}_joint"][0]) for x in ("left_driver", "right_driver", "left_tip"))
            now = gaps(robot, q), abs(left - right), abs(tip - left)
            open_by, apart, tilted = (max(pair) for pair in zip((open_by, apart, tilted), now, strict=True))
            widest.append(left)
    print(f"open by {open_by:.1e} m, apart {apart:.1e}, tilted {tilted:.1e}, {min(widest):.3f} to {max(widest):.3f}")
    assert min(widest) < 0.0
    assert max(widest) > 0.8
    assert open_by < 1e-4
    assert apart < 1e-6, "though 0.3 N m turn so light a finger by 10 000 rad/s^2"
    assert tilted < 1e-3, "pads stay parallel"


SUFFIXES = {"sdf": ".sdf", "usd": ".usda", "mjcf": ".xml"}
TRIPS = [("mimics", "sdf"), ("mimics", "usd"), ("gripper", "usd"), ("gripper", "sdf"), ("four bars", "sdf")]
TRIPS += [("four bars", "usd"), ("boxes", "sdf"), ("boxes", "usd"), ("mimics", "mjcf")]
FEW_TRIPS = (("mimics", "mjcf"), ("mimics", "usd"), ("gripper", "sdf"), ("four bars", "usd"), ("boxes", "sdf"))


def travelling(which: str, folder: Path) -> Robot | World:
    """What is written and read."""
    if which == "boxes":
        return read(assets("usd/newton_examples/boxes_fourbar.usda"), policy=collect)
    return {
        "mimics": lambda: mimics(folder),
        "gripper": lambda: read(EXAMPLES / "gripper" / "gripper.sdf"),
        "four bars": four_bar,
    }[which]()


@pytest.mark.parametrize(("which", "format"), representative_tuples(TRIPS, lambda trip: trip in FEW_TRIPS))
def test_loops_and_mimics_in_other_formats(which: str, format: str, tmp_path: Path) -> None:
    """Written in another format and read again it has the same ties and followers, and moves the same way."""
    described = travelling(which, tmp_path)
    write(described, tmp_path / f"other{SUFFIXES[format]}")
    models = [compiled(x) for x in (described, read(tmp_path / f"other{SUFFIXES[format]}", policy=collect))]
    assert [sorted(m.equalities.components) for m in models[1:]] == [sorted(models[0].equalities.components)]
    assert len(models[0].couplings.names) == len(models[1].couplings.names)
    ends = []
    for model in models:
        engine = constrained_engine(model, dt=1e-3)
        order = np.argsort(model.joints.names)
        starts = model.joints.dof_start[order]
        widths = model.joints.dof_end[order] - starts
        command = np.zeros((model.n_dofs, 1))
        command[starts[widths == 1]] = 0.02 * np.cos(np.arange(np.sum(widths == 1)))[:, None]
        engine.array_view("command").assign(command)
        engine.step(100)
        order = np.argsort(model.links.names)
        ends.append((sorted(model.links.names), np.array(engine.fields.links_state.pos.numpy())[order, 0]))
    shared = sorted(set(ends[0][0]) & set(ends[1][0]))
    assert shared, "both have the same links"
    rows = [[positions[names.index(name)] for name in shared] for names, positions in ends]
    np.testing.assert_allclose(rows[1], rows[0], rtol=0, atol=1e-6)
