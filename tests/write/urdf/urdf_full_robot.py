"""A robot that has everything a description can say, each of it different from its default."""

from __future__ import annotations

import numpy as np

from kinema.core import Diagnostics, Origin, Pose, collect
from kinema.description import (
    Actuator,
    Approximation,
    Axis,
    AxisMotion,
    Base,
    Box,
    Camera,
    Capsule,
    CollisionGroup,
    CollisionPair,
    CollisionRules,
    Cone,
    ConeLimit,
    Constraint,
    ConstraintKind,
    Cylinder,
    Drive,
    DriveType,
    Ellipsoid,
    Extra,
    Frame,
    HeightField,
    Inertial,
    Joint,
    JointKind,
    Keyframe,
    Light,
    Link,
    Mesh,
    Mimic,
    PhysicsMaterial,
    Plane,
    Robot,
    Sensor,
    Shape,
    SolverParameters,
    Sphere,
    Tendon,
    TendonPathItem,
    TendonPathKind,
    Transmission,
    VisualMaterial,
    rotation,
    spherical_axes,
)
from kinema.geometry import Texture, TextureMapping, box

PLACED = Pose.from_rpy((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
SOLVER = SolverParameters(solref=(0.01, 0.9), solimp=(0.8, 0.9, 0.01, 0.4, 3.0), margin=0.1)


def _kept(name: str) -> dict:
    """What every node has."""
    extras = [Extra("mjcf", "custom", "<custom/>", Origin("robot.xml", 7))]
    return {"name": name, "origin": Origin("robot.xml", 3), "extras": extras, "attributes": {"mjcf:class": "arm"}}


def full_robot() -> Robot:
    """The robot: a chain of links, of which `arm` has everything, and all that can be on a robot beside them."""
    robot = Robot(
        **_kept("full"),
        name_is_generated=True,
        format="mjcf",
        source="robot.xml",
        diagnostics=Diagnostics(policy=print, items=[]),
        gravity=np.array([0.0, 0.0, -1.6]),
        pose=Pose.translation((0.0, 0.0, 1.0)),
        root="base",
        base=Base.FIXED,
        static=True,
        options={"timestep": 0.001},
        links=[_link("base"), _full_link(), _link("wrist"), _link("hand"), _link("finger")],
    )
    assert robot.diagnostics.policy is not collect
    robot.joints = _joints()
    robot.collision = CollisionRules(
        groups=[CollisionGroup(**_kept("group"), members=["arm"], between="links", filtered=["group"])],
        pairs=[CollisionPair(a="base", b="hand", name="pair")],
        self_collide=False,
        neighbours_collide=True,
    )
    _add_lists(robot)
    return robot


def _link(name: str) -> Link:
    return Link(name=name, inertial=Inertial(2.0, np.array([0.1, 0.0, 0.0]), np.diag([0.1, 0.2, 0.25])))


def _full_link() -> Link:
    return Link(
        **_kept("arm"),
        name_is_generated=True,
        inertial=Inertial(3.0, np.array([0.1, 0.2, 0.3]), np.diag([0.2, 0.2, 0.3])),
        inertial_is_computed=True,
        density=700.0,
        shapes=_shapes(),
        pose=Pose.translation((5.0, 5.0, 5.0)),
        nested_in="base",
        enabled=False,
        kinematic=True,
        starts_asleep=True,
        continuous_collision=True,
        gravity_scale=0.5,
        self_collide=False,
        linear_velocity=np.array([1.0, 0.0, 0.0]),
        angular_velocity=np.array([0.0, 1.0, 0.0]),
    )


def _shapes() -> list[Shape]:
    material = VisualMaterial(
        **_kept("steel"),
        color=(0.1, 0.2, 0.3, 0.4),
        emission=(0.1, 0.0, 0.0),
        specular=0.5,
        metallic=0.6,
        roughness=0.7,
        reflectance=0.8,
        clearcoat=0.9,
        clearcoat_roughness=0.25,
        opacity_threshold=0.5,
        double_sided=True,
        texture_mapping=TextureMapping(scale=(2.0, 3.0)),
        maps={"normal": Texture(file="/nowhere/normal.png")},
    )
    full = Shape(
        **_kept("full_shape"),
        geometry=Box(np.array([1.0, 2.0, 3.0])),
        pose=PLACED,
        material=material,
        surface=PhysicsMaterial(name="rubber", static_friction=0.9),
        mass=1.0,
        density=500.0,
        contype=2,
        conaffinity=4,
        group=3,
    )
    data = box((1.0, 1.0, 1.0))
    mesh = Mesh(
        vertices=data.vertices,
        faces=data.faces,
        scale=np.array([1.0, 2.0, 3.0]),
        approximation=Approximation.SDF,
        max_hull_vertices=32,
        submesh="part",
        center_submesh=True,
    )
    geometries = {
        "ball": Sphere(0.5),
        "egg": Ellipsoid(np.array([0.1, 0.2, 0.3])),
        "pill": Capsule(0.1, 0.4),
        "can": Cylinder(0.2, 0.5),
        "hat": Cone(0.2, 0.5),
        "floor": Plane((3.0, 4.0)),
        "block": mesh,
        "hills": HeightField(heights=np.array([[0.1, 0.2], [0.3, 0.4]]), size=(2.0, 2.0), base=0.5),
    }
    others = [Shape(name=name, geometry=geometry, visual=False) for name, geometry in geometries.items()]
    off = Shape(name="off", geometry=Sphere(0.1), enabled=False)
    return [full, *others, off, Shape(name="neither", geometry=Sphere(0.1), visual=False, collision=False)]


def _joints() -> list[Joint]:
    axis = Axis(
        direction=np.array([0.6, 0.0, 0.8]),
        motion=AxisMotion.ROTATION,
        lower=-1.0,
        upper=2.0,
        velocity=3.0,
        effort=4.0,
        acceleration=5.0,
        deceleration=6.0,
        jerk=7.0,
        reference=0.3,
        stiffness=8.0,
        spring_reference=0.1,
        damping=9.0,
        friction=10.0,
        armature=11.0,
        drive=Drive(stiffness=1.0, type=DriveType.ACCELERATION),
        mimic=Mimic(joint="ball", axis=1, multiplier=2.0, offset=0.5, reference=0.1),
        limit_solver=SOLVER,
        friction_solver=SOLVER,
    )
    full = Joint(
        **_kept("full_joint"),
        name_is_generated=True,
        kind=JointKind.REVOLUTE,
        parent="base",
        child="arm",
        parent_pose=PLACED,
        child_pose=PLACED,
        axes=[axis],
        initial=np.array([0.5]),
        state=np.array([0.6]),
        collision_enabled=True,
        break_force=12.0,
        break_torque=13.0,
    )
    ball = Joint(name="ball", kind=JointKind.SPHERICAL, parent="arm", child="wrist", axes=spherical_axes())
    ball.cone = ConeLimit(angle_y=0.5, angle_z=0.6)
    screw = Joint(name="screw", kind=JointKind.SCREW, parent="wrist", child="hand", pitch=0.01)
    screw.axes = [rotation((0, 0, 1))]
    locked = Joint(name="locked", kind=JointKind.SIX_AXIS, parent="hand", child="finger", distance=(0.1, 0.2))
    locked.axes = [rotation((1, 0, 0)), rotation((0, 1, 0))]
    locked.axes[0].locked = True
    stacked = Joint(name="stacked", kind=JointKind.REVOLUTE, parent="hand", child="finger", stacked=True)
    stacked.axes = [rotation((0, 0, 1))]
    loop = Joint(name="loop", kind=JointKind.FIXED, parent="finger", child="base", closes_loop=True)
    disabled = Joint(name="disabled", kind=JointKind.FIXED, parent="finger", child="base", enabled=False)
    weld = Joint(name="weld", kind=JointKind.FIXED, parent=None, child="base", implicit=True)
    dangling = Joint(name="dangling", kind=JointKind.FIXED, parent="finger", child="nobody")
    return [weld, full, ball, screw, locked, stacked, loop, disabled, dangling]


def _add_lists(robot: Robot) -> None:
    robot.constraints = [
        Constraint(**_kept("constraint"), kind=ConstraintKind.WELD, a="base", b="hand"),
        Constraint(name="coupling", kind=ConstraintKind.JOINT, a="locked", b="screw", polynomial=(0.1, 2, 0, 0, 0)),
    ]
    robot.actuators = [Actuator(**_kept("motor"), transmission=Transmission.JOINT, target="full_joint")]
    robot.tendons = [Tendon(**_kept("tendon"), path=[TendonPathItem(kind=TendonPathKind.JOINT, target="screw")])]
    robot.sensors = [Sensor(**_kept("gyro"), kind="gyro", target_kind="link", target="hand")]
    robot.frames = [Frame(**_kept("site"), link="hand", pose=PLACED, marker=Sphere(0.1), color=(1.0, 0.0, 0.0, 1.0))]
    robot.cameras = [Camera(**_kept("eye"), link="hand")]
    robot.lights = [Light(**_kept("sun"), kind="directional", link=None)]
    robot.keyframes = [Keyframe(**_kept("home"), positions={"screw": np.array([0.1])})]
