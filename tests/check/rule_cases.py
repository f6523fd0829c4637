"""For each rule a robot that it finds something in, and one that it just does not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kinema.core import Pose, rpy_to_matrix
from kinema.description import (
    Actuator,
    CollisionGroup,
    CollisionPair,
    ConeLimit,
    Constraint,
    ConstraintKind,
    Drive,
    Frame,
    Inertial,
    Joint,
    JointKind,
    Keyframe,
    Link,
    Mimic,
    Robot,
    Sensor,
    Tendon,
    TendonPathItem,
    TendonPathKind,
    Transmission,
    World,
    rotation,
    spherical_axes,
)

from .robots_to_check import (
    arm,
    box_link,
    elbow_axis,
    fixed,
    hinge,
    placed,
    shoulder_axis,
    spoiled,
    with_axis,
    with_inertial,
)


class Case(NamedTuple):
    """A spoiled robot, and a near miss."""

    code: str
    bad: Robot | World
    near_miss: Robot | World
    also: frozenset[str] = frozenset()
    """Codes that the spoiled robot cannot avoid beside."""


Maker = Callable[[], tuple[Robot | World, Robot | World]]
CASES: dict[str, tuple[Maker, frozenset[str]]] = {}


def case(code: str, *also: str) -> Callable[[Maker], Maker]:
    """Register the two robots of a rule."""

    def register(maker: Maker) -> Maker:
        assert code not in CASES
        CASES[code] = (maker, frozenset(also))
        return maker

    return register


def make(code: str) -> Case:
    """The two robots of a rule, made afresh."""
    maker, also = CASES[code]
    return Case(code, *maker(), also)


def _set(node: object, **fields: object) -> None:
    for name, value in fields.items():
        setattr(node, name, value)


def _joint(robot: Robot, name: str, /, **fields: object) -> Robot:
    _set(robot.joint(name), **fields)
    return robot


def _link(robot: Robot, name: str, /, **fields: object) -> Robot:
    _set(robot.link(name), **fields)
    return robot


def _arm(**fields: object) -> Robot:
    robot = arm()
    _set(robot, **fields)
    return robot


# -- structure and numbers ---------------------------------------------------------------------------------------------


@case("structure.array")
def _array() -> tuple[Robot, Robot]:
    return with_axis(direction=np.array([0.0, 1.0])), with_axis(direction=np.array([0, 1, 0]))


@case("numbers.nan")
def _nan() -> tuple[Robot, Robot]:
    return with_axis(damping=math.nan), with_axis(damping=1e300)


@case("numbers.infinite")
def _infinite() -> tuple[Robot, Robot]:
    return with_axis(damping=math.inf), with_axis(effort=math.inf, lower=-math.inf)


# -- graph -------------------------------------------------------------------------------------------------------------


@case("graph.empty")
def _empty() -> tuple[Robot, Robot]:
    return Robot(name="nothing"), Robot(name="something", links=[box_link("only")])


@case("graph.unknown-link")
def _unknown_link() -> tuple[Robot, Robot]:
    extra = fixed("extra", "bass", "tool")
    return _arm(joints=[*arm().joints, extra]), _arm(joints=[*arm().joints, fixed("anchor", None, "base")])


@case("graph.self-joint")
def _self_joint() -> tuple[Robot, Robot]:
    return _arm(joints=[*arm().joints, fixed("extra", "base", "base")]), arm()


@case("graph.several-roots")
def _several_roots() -> tuple[Robot, Robot]:
    apart = box_link("apart", center=(1, 0, 0))
    return (
        _arm(links=[*arm().links, apart]),
        _arm(links=[*arm().links, apart], joints=[*arm().joints, fixed("bridge", "base", "apart")]),
    )


@case("graph.two-parents")
def _two_parents() -> tuple[Robot, Robot]:
    second = fixed("second", "base", "fore", (0, 0, 0.4))
    return (
        spoiled(lambda r: r.joints.append(second), format="urdf"),
        spoiled(lambda r: r.joints.append(second), format="sdf"),
    )


@case("graph.loop")
def _loop() -> tuple[Robot, Robot]:
    closing = fixed("closing", "base", "fore", (0, 0, 0.4))
    declared = fixed("closing", "base", "fore", (0, 0, 0.4))
    declared.closes_loop = True
    return spoiled(lambda r: r.joints.append(closing), format="sdf"), spoiled(lambda r: r.joints.append(declared))


@case("graph.isolated-frame", "graph.several-roots")
def _isolated_frame() -> tuple[Robot, Robot]:
    lone = Link(name="lone")
    return (
        _arm(links=[*arm().links, lone]),
        _arm(links=[*arm().links, lone], joints=[*arm().joints, fixed("bridge", "base", "lone")]),
    )


# -- references --------------------------------------------------------------------------------------------------------


def _motor(target: str, **fields: object) -> Actuator:
    actuator = Actuator(name="motor", transmission=Transmission.JOINT, target=target)
    _set(actuator, **fields)
    return actuator


@case("references.actuator")
def _actuator() -> tuple[Robot, Robot]:
    return _arm(actuators=[_motor("knee")]), _arm(actuators=[_motor("elbow")])


@case("references.tendon")
def _tendon() -> tuple[Robot, Robot]:
    def robot(name: str) -> Robot:
        path = [TendonPathItem(kind=TendonPathKind.JOINT, target=name)]
        return _arm(tendons=[Tendon(name="cable", path=path)])

    return robot("knee"), robot("elbow")


@case("references.constraint")
def _constraint() -> tuple[Robot, Robot]:
    def robot(b: str | None) -> Robot:
        return _arm(constraints=[Constraint(name="hold", kind=ConstraintKind.CONNECT, a="base", b=b)])

    return robot("nowhere"), robot(None)


@case("references.frame")
def _frame() -> tuple[Robot, Robot]:
    return _arm(frames=[Frame(name="site", link="nowhere")]), _arm(frames=[Frame(name="site", link=None)])


@case("references.sensor")
def _sensor() -> tuple[Robot, Robot]:
    def robot(kind: str) -> Robot:
        return _arm(sensors=[Sensor(name="eye", kind="imu", target_kind=kind, target="nowhere")])

    return robot("link"), robot("a kind of one format only")


@case("references.keyframe")
def _keyframe() -> tuple[Robot, Robot]:
    def robot(joint: str) -> Robot:
        return _arm(keyframes=[Keyframe(name="home", positions={joint: np.zeros(1)})])

    return robot("knee"), robot("elbow")


@case("references.collision-rule")
def _collision_rule() -> tuple[Robot, Robot]:
    bad, good = arm(), arm()
    bad.collision.pairs.append(CollisionPair(a="base", b="nowhere"))
    good.collision.pairs.append(CollisionPair(a="base", b="world"))
    good.collision.groups.append(CollisionGroup(name="all", members=["base", "upper_box"], filtered=["all"]))
    return bad, good


@case("references.root")
def _root() -> tuple[Robot, Robot]:
    return _arm(root="nowhere"), _arm(root="base")


# -- names -------------------------------------------------------------------------------------------------------------


@case("names.empty")
def _nameless() -> tuple[Robot, Robot]:
    return _joint(arm(), "flange", name=""), _joint(arm(), "flange", name=" ")


@case("names.duplicate-link")
def _duplicate_link() -> tuple[Robot, Robot]:
    other = _arm(links=[*arm().links, Link(name="Tool")], joints=[*arm().joints, fixed("more", "fore", "Tool")])
    return _arm(links=[*arm().links, Link(name="tool")]), other


@case("names.duplicate-joint", "graph.loop")
def _duplicate_joint() -> tuple[Robot, Robot]:
    return (
        _arm(joints=[*arm().joints, fixed("elbow", "base", "tool", (0, 0, 0.6))]),
        _arm(joints=[*arm().joints, fixed("elbow2", "base", "tool", (0, 0, 0.6))]),
    )


@case("names.duplicate-robot")
def _duplicate_robot() -> tuple[World, World]:
    def world(second: str) -> World:
        aside = arm(second)
        aside.pose = Pose.translation((2, 0, 0))
        return World(robots=[arm("one"), aside])

    return world("one"), world("two")


@case("names.duplicate-part")
def _duplicate_part() -> tuple[Robot, Robot]:
    def robot(second: str) -> Robot:
        return _arm(frames=[Frame(name="site", link="base"), Frame(name=second, link="base")])

    return robot("site"), robot("")


@case("names.duplicate-shape")
def _duplicate_shape() -> tuple[Robot, Robot]:
    def robot(second: str) -> Robot:
        result = arm()
        shapes = box_link("more").shapes
        shapes[0].name = second
        result.link("upper").shapes.extend(shapes)
        return result

    return robot("upper_box"), robot("")


@case("names.differ-in-case")
def _differ_in_case() -> tuple[Robot, Robot]:
    return _joint(arm(), "flange", name="Elbow"), _joint(arm(), "flange", name="Elbow_2")


@case("names.clash-when-cleaned")
def _clash_when_cleaned() -> tuple[Robot, Robot]:
    def robot(first: str, second: str) -> Robot:
        return _joint(_joint(arm(), "shoulder", name=first), "elbow", name=second)

    return robot("left arm", "left-arm"), robot("left arm", "left_arm_2")


# -- axes --------------------------------------------------------------------------------------------------------------


@case("axes.count")
def _count() -> tuple[Robot, Robot]:
    return _joint(arm(), "shoulder", axes=[]), _joint(arm(), "shoulder", kind=JointKind.CONTINUOUS)


@case("axes.coordinates")
def _coordinates() -> tuple[Robot, Robot]:
    def robot(*initial: float) -> Robot:
        return _joint(arm(), "shoulder", initial=np.array(initial))

    return robot(0.0, 0.0), robot(0.0)


@case("axes.zero")
def _zero() -> tuple[Robot, Robot]:
    return with_axis(direction=np.zeros(3)), with_axis(direction=np.array([0, 1e-6, 0]))


@case("axes.not-unit")
def _not_unit() -> tuple[Robot, Robot]:
    return with_axis(direction=np.array([0, 2.0, 0])), with_axis(direction=np.array([0, 1.0 + 1e-9, 0]))


@case("axes.parallel")
def _parallel() -> tuple[Robot, Robot]:
    def robot(second: tuple[float, float, float]) -> Robot:
        axes = [rotation((0, 1, 0)), rotation(second)]
        return _joint(arm(), "shoulder", kind=JointKind.UNIVERSAL, axes=axes)

    return robot((0, -1, 0)), robot((0.1, 1, 0))


@case("axes.screw-pitch")
def _screw_pitch() -> tuple[Robot, Robot]:
    return (
        _joint(arm(), "shoulder", kind=JointKind.SCREW),
        _joint(arm(), "shoulder", kind=JointKind.SCREW, pitch=-0.002),
    )


@case("axes.negative-dynamics")
def _negative_dynamics() -> tuple[Robot, Robot]:
    return with_axis(damping=-0.1), with_axis(damping=0.0, spring_reference=-1.0)


# -- limits ------------------------------------------------------------------------------------------------------------


@case("limits.reversed")
def _reversed() -> tuple[Robot, Robot]:
    return with_axis(lower=1.0, upper=-1.0), with_axis(lower=-1.0, upper=-0.999)


@case("limits.frozen")
def _frozen() -> tuple[Robot, Robot]:
    return with_axis(lower=0.0, upper=0.0), with_axis(lower=0.0, upper=1e-3)


@case("limits.missing")
def _missing_limits() -> tuple[Robot, Robot]:
    return (
        spoiled(lambda r: _set(elbow_axis(r), lower=-math.inf, upper=math.inf)),
        spoiled(lambda r: _set(elbow_axis(r), lower=0.0, upper=math.inf)),
    )


@case("limits.absurd")
def _absurd() -> tuple[Robot, Robot]:
    return with_axis(lower=-170.0, upper=170.0), with_axis(lower=-4 * math.pi, upper=4 * math.pi)


@case("limits.effort")
def _effort() -> tuple[Robot, Robot]:
    return with_axis(effort=0.0), with_axis(effort=1e-3)


@case("limits.velocity")
def _velocity() -> tuple[Robot, Robot]:
    return with_axis(velocity=-1.0), with_axis(velocity=math.inf)


@case("limits.rest-outside")
def _rest_outside() -> tuple[Robot, Robot]:
    shown_inside = with_axis(lower=0.1, upper=1.0)
    shown_inside.joints[0].state = np.array([0.5])
    return with_axis(lower=0.1, upper=1.0), shown_inside


@case("limits.cone")
def _cone() -> tuple[Robot, Robot]:
    def robot(angle: float) -> Robot:
        cone = ConeLimit(angle_y=angle, angle_z=0.5)
        return _joint(arm(), "shoulder", kind=JointKind.SPHERICAL, axes=spherical_axes(), cone=cone)

    return robot(90.0), robot(math.pi)


@case("limits.distance", "frames.open-loop")
def _distance() -> tuple[Robot, Robot]:
    def robot(low: float, high: float) -> Robot:
        rope = Joint(name="rope", kind=JointKind.DISTANCE, parent="base", child="fore", distance=(low, high))
        return _arm(joints=[*arm().joints, rope])

    return robot(1.0, 0.5), robot(0.0, 0.5)


# -- mimic -------------------------------------------------------------------------------------------------------------


def _follower(**fields: object) -> Robot:
    """The clean robot with a finger on the forearm that turns as the shoulder does."""
    robot = arm()
    finger = box_link("finger", (0.02, 0.02, 0.1), (0, 0, 0.05))
    robot.links.append(finger)
    joint = hinge("knuckle", "fore", "finger", (0, 0, 0.2))
    joint.axes[0].mimic = Mimic(**{"joint": "shoulder", **fields})  # type: ignore[arg-type]
    robot.joints.append(joint)
    return robot


@case("mimic.unknown-joint")
def _mimic_unknown() -> tuple[Robot, Robot]:
    return _follower(joint="nowhere"), _follower()


@case("mimic.unknown-axis")
def _mimic_axis() -> tuple[Robot, Robot]:
    return _follower(axis=1), _follower(axis=0)


@case("mimic.self")
def _mimic_self() -> tuple[Robot, Robot]:
    return _follower(joint="knuckle"), _follower()


@case("mimic.circle", "mimic.chain")
def _mimic_circle() -> tuple[Robot, Robot]:
    robot = _follower()
    shoulder_axis(robot).mimic = Mimic(joint="knuckle")
    return robot, _follower()


@case("mimic.chain")
def _mimic_chain() -> tuple[Robot, Robot]:
    def robot(leader: str) -> Robot:
        result = _follower()
        result.links.append(box_link("tip", (0.01, 0.01, 0.02), (0, 0, 0.01)))
        joint = hinge("last", "finger", "tip", (0, 0, 0.1))
        joint.axes[0].mimic = Mimic(joint=leader)
        result.joints.append(joint)
        return result

    return robot("knuckle"), robot("shoulder")


@case("mimic.zero-multiplier")
def _mimic_zero() -> tuple[Robot, Robot]:
    return _follower(multiplier=0.0), _follower(multiplier=-0.01)


@case("mimic.kinds")
def _mimic_kinds() -> tuple[Robot, Robot]:
    return _follower(joint="elbow", multiplier=2.0), _follower()


@case("mimic.limits")
def _mimic_limits() -> tuple[Robot, Robot]:
    return _follower(multiplier=1.1), _follower(multiplier=-1.0)


# -- frames ------------------------------------------------------------------------------------------------------------


@case("frames.not-a-rotation")
def _not_a_rotation() -> tuple[Robot, Robot]:
    def robot(rotation: np.ndarray) -> Robot:
        return _joint(arm(), "flange", parent_pose=Pose(np.zeros(3), rotation))

    return robot(np.diag([1.0, 1.0, -1.0])), robot(rpy_to_matrix((0.1, 2.0, -3.0)))


@case("frames.disagree")
def _disagree() -> tuple[Robot, Robot]:
    def robot(offset: tuple[float, float, float]) -> Robot:
        result = placed(arm())
        for name in ("fore", "tool"):
            pose = result.link(name).pose
            assert pose is not None
            result.link(name).pose = Pose.translation(offset) @ pose
        return result

    # along the slider the links may be anywhere, across it they may not
    return robot((0.01, 0.0, 0.0)), robot((0.0, 0.0, 0.05))


@case("frames.parked")
def _parked() -> tuple[Robot, Robot]:
    def robot(angle: float) -> Robot:
        result = arm()
        for name, pose in result.link_poses({"shoulder": angle}).items():
            result.link(name).pose = pose
        return result

    return robot(0.3), robot(0.0)


@case("frames.open-loop")
def _open_loop() -> tuple[Robot, Robot]:
    def robot(gap: float) -> Robot:
        joint = fixed("closing", "base", "fore", (gap, 0, 0.4))
        joint.closes_loop = True
        return _arm(joints=[*arm().joints, joint])

    return robot(0.01), robot(0.0)


@case("frames.open-constraint")
def _open_constraint() -> tuple[Robot, Robot]:
    def robot(height: float) -> Robot:
        hold = Constraint(name="hold", kind=ConstraintKind.CONNECT, a="base", b="fore")
        hold.pose_a = Pose.translation((0, 0, height))
        return _arm(constraints=[hold])

    return robot(0.3), robot(0.4)


# -- inertia -----------------------------------------------------------------------------------------------------------


@case("inertia.negative-mass")
def _negative_mass() -> tuple[Robot, Robot]:
    return with_inertial(mass=-0.5), with_inertial(mass=0.4)


@case("inertia.no-mass")
def _no_mass() -> tuple[Robot, Robot]:
    held = _link(arm(), "fore", inertial=None)
    held.link("tool").inertial = box_link("x", (0.05, 0.05, 0.2), (0, 0, -0.1)).inertial
    return _link(arm(), "fore", inertial=None), held


@case("inertia.massless-robot")
def _massless_robot() -> tuple[Robot, Robot]:
    def robot(base: Inertial | None) -> Robot:
        result = arm()
        for link in result.links:
            link.inertial = None
        result.link("base").inertial = base
        return result

    return robot(None), robot(arm().link("base").inertial)


@case("inertia.zero")
def _zero_inertia() -> tuple[Robot, Robot]:
    return with_inertial(inertia=(0, 0, 0)), with_inertial(inertia=(1e-3, 1e-3, 5e-4))


@case("inertia.not-symmetric")
def _not_symmetric() -> tuple[Robot, Robot]:
    def robot(off: float) -> Robot:
        return with_inertial(inertia=[[2e-3, 1e-5, 0], [off, 2e-3, 0], [0, 0, 5e-4]])

    return robot(-1e-5), robot(1e-5)


@case("inertia.not-positive")
def _not_positive() -> tuple[Robot, Robot]:
    def robot(off: float) -> Robot:
        return with_inertial(inertia=[[2e-3, off, 0], [off, 2e-3, 0], [0, 0, 2e-3]])

    return robot(3e-3), robot(5e-4)


@case("inertia.triangle")
def _triangle() -> tuple[Robot, Robot]:
    return with_inertial(inertia=(1e-3, 1e-3, 2.5e-3)), with_inertial(inertia=(1e-3, 1e-3, 2e-3))


@case("inertia.placeholder")
def _placeholder() -> tuple[Robot, Robot]:
    return with_inertial(inertia=(1, 1, 1)), with_inertial(inertia=(1e-3, 1e-3, 1e-3))


@case("inertia.implausible")
def _implausible() -> tuple[Robot, Robot]:
    return with_inertial(inertia=(1.7, 1.7, 0.2)), with_inertial(inertia=(6e-3, 6e-3, 2e-3))


@case("inertia.center-outside")
def _center_outside() -> tuple[Robot, Robot]:
    return with_inertial(center=(0, 0, 100)), with_inertial(center=(0, 0, 0.22))


# -- actuation ---------------------------------------------------------------------------------------------------------


@case("actuation.range")
def _range() -> tuple[Robot, Robot]:
    def robot(low: float, high: float) -> Robot:
        return _arm(actuators=[_motor("elbow", control_range=(low, high))])

    return robot(1.0, -1.0), robot(-1.0, 1.0)


@case("actuation.no-effect")
def _no_effect() -> tuple[Robot, Robot]:
    def robot(*gear: float) -> Robot:
        return _arm(actuators=[_motor("elbow", gear=gear)])

    return robot(0.0, 0.0), robot(0.0, 1.0)


@case("actuation.empty-tendon")
def _empty_tendon() -> tuple[Robot, Robot]:
    path = [TendonPathItem(kind=TendonPathKind.JOINT, target="elbow")]
    return _arm(tendons=[Tendon(name="cable")]), _arm(tendons=[Tendon(name="cable", path=path)])


@case("actuation.drive-without-gains")
def _without_gains() -> tuple[Robot, Robot]:
    return with_axis(drive=Drive()), with_axis(drive=Drive(damping=1.0))


@case("actuation.negative-gain")
def _negative_gain() -> tuple[Robot, Robot]:
    return with_axis(drive=Drive(stiffness=-1.0)), with_axis(drive=Drive(stiffness=1.0, target_position=-1.0))


@case("actuation.target-outside")
def _target_outside() -> tuple[Robot, Robot]:
    return (
        with_axis(drive=Drive(stiffness=1.0, target_position=30.0)),
        with_axis(drive=Drive(stiffness=1.0, target_position=1.5)),
    )


@case("actuation.keyframe-size")
def _keyframe_size() -> tuple[Robot, Robot]:
    def robot(*values: float) -> Robot:
        return _arm(keyframes=[Keyframe(name="home", positions={"elbow": np.array(values)})])

    return robot(0.0, 0.0), robot(0.0)
