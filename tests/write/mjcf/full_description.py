"""A description in which every field of every node is set to something."""

from __future__ import annotations

import numpy as np

from kinema.core import Pose
from kinema.description import (
    Actuator,
    Approximation,
    Base,
    Box,
    Camera,
    Capsule,
    CollisionGroup,
    CollisionPair,
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
    World,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kinema.geometry import Appearance, CornerAttribute, Texture, TextureMapping, WrapMode, box, normalize_normals

POSE = Pose.from_rpy((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
OTHER = Pose.from_rpy((-0.3, 0.2, 0.1), (0.2, -0.1, 0.7))
SOLVER = SolverParameters(solref=(0.03, 0.9), solimp=(0.8, 0.9, 0.01, 0.4, 3.0), margin=0.02)
INERTIA = np.array([[1.0, 0.1, 0.2], [0.1, 1.5, 0.3], [0.2, 0.3, 2.0]])


def inertial(mass: float = 2.0) -> Inertial:
    return Inertial(mass, np.array([0.1, -0.2, 0.3]), INERTIA)


def full_world() -> World:
    """Two robots, scenery, and everything between them."""
    arm, cart = _arm(), _cart()
    world = World(
        name="full world",
        robots=[arm, cart],
        shapes=[
            Shape(name="floor", geometry=Plane((4.0, 6.0)), pose=Pose.translation((0.0, 0.0, -1.0))),
            Shape(
                name="hills",
                geometry=HeightField(heights=np.array([[0.5, 1.0, 2.0], [3.0, 4.0, 0.25]]), size=(2.0, 3.0), base=0.5),
            ),
        ],
        gravity=np.array([0.0, 1.0, -9.0]),
        options={"timestep": 0.004, "integrator": "implicitfast", "steps_ahead": 3},
        frames=[Frame(name="corner", link=None, pose=POSE, marker=Box(np.array([0.1, 0.2, 0.3])), color=(1, 0, 0, 1))],
        cameras=[Camera(name="overview", link=None, pose=POSE, vertical_fov=0.9, resolution=(64, 48), clip=(0.1, 9.0))],
        lights=[Light(name="sun", kind="directional", link=None, pose=POSE, color=(0.2, 0.3, 0.4), casts_shadow=False)],
        constraints=[
            Constraint(
                name="between robots", kind=ConstraintKind.CONNECT, a="hand", b="cart", pose_a=POSE, pose_b=OTHER
            )
        ],
        extras=[Extra("sdf", "plugin", "<plugin/>")],
        attributes={"sdf:physics_type": "ode"},
    )
    world.collision.pairs.append(CollisionPair(a="hand", b="cart", name="apart"))
    return world


# -- the arm ----------------------------------------------------------------------------------------------------------


def _arm() -> Robot:
    links = [
        Link(name="base", inertial=inertial(), shapes=_shapes()),
        Link(name="upper", inertial=inertial(3.0), gravity_scale=0.25, self_collide=False, kinematic=True),
        Link(
            name="lower",
            inertial=inertial(),
            inertial_is_computed=True,
            density=500.0,
            starts_asleep=True,
            continuous_collision=True,
        ),
        Link(name="hand", inertial=inertial(), linear_velocity=np.ones(3), angular_velocity=np.ones(3)),
        Link(name="ghost", enabled=False),
        Link(name="odd", inertial=Inertial(1.0, np.zeros(3), np.diag([1.0, 1.0, 5.0]))),
        *(Link(name=f"link of {k.value}", inertial=inertial()) for k in JointKind if k is not JointKind.DISTANCE),
    ]
    robot = Robot(name="arm", links=links, base=Base.UNSPECIFIED, root="base", pose=POSE)
    robot.joints = [*_main_joints(), *_every_kind(), *_loops()]
    robot.links[0].pose = OTHER
    robot.constraints = _constraints()
    robot.tendons = [_tendon()]
    robot.actuators = _actuators()
    robot.sensors = _sensors()
    robot.frames = [
        Frame(name="tip", link="hand", pose=POSE, marker=Sphere(0.02), color=(0.0, 1.0, 0.0, 1.0)),
        Frame(name="elbow frame", link="upper", pose=OTHER),
    ]
    robot.cameras = [Camera(name="eye", link="hand", pose=OTHER, vertical_fov=0.5)]
    robot.lights = [Light(name="lamp", kind="spot", link="hand", pose=POSE)]
    robot.keyframes = [
        Keyframe(
            name="home",
            time=2.0,
            positions={"shoulder": np.array([0.3]), "wrist": np.array([0.5])},
            velocities={"shoulder": np.array([0.7])},
            controls={"motor": 0.25},
            activations={"filtered": np.array([0.5])},
        )
    ]
    robot.collision.groups.append(CollisionGroup(name="quiet", members=["base", "hand"], filtered=["quiet"]))
    robot.extras = [Extra("urdf", "gazebo", "<gazebo/>")]
    return robot


def _shapes() -> list[Shape]:
    mesh = box((0.1, 0.2, 0.3))
    surface = PhysicsMaterial(
        name="rubber",
        static_friction=0.9,
        dynamic_friction=0.8,
        dynamic_friction2=0.7,
        torsional_friction=0.02,
        rolling_friction=0.003,
        restitution=0.5,
        density=700.0,
        contact_stiffness=1e4,
        contact_damping=10.0,
        contact_dimension=6,
        gap=0.01,
        priority=2,
        solmix=3.0,
        solver=SOLVER,
    )
    material = VisualMaterial(
        name="paint",
        color=(0.1, 0.2, 0.3, 0.9),
        texture="/nowhere/wood.png",
        emission=(0.5, 0.1, 0.1),
        specular=0.25,
        metallic=0.125,
        roughness=0.75,
        reflectance=0.375,
        clearcoat=0.5,
        clearcoat_roughness=0.25,
        opacity_threshold=0.5,
        double_sided=True,
        texture_mapping=TextureMapping(wrap=(WrapMode.CLAMP, WrapMode.CLAMP)),
        maps={"bump": Texture(file="/nowhere/bump.png", channel="g", strength=0.5)},
    )
    inline = Mesh(
        vertices=mesh.vertices,
        faces=mesh.faces,
        appearance=Appearance(normals=normalize_normals(CornerAttribute(mesh.vertices, mesh.faces))),
        scale=np.array([1.0, -2.0, 3.0]),
        max_hull_vertices=20,
    )
    return [
        Shape(name="box", geometry=Box(np.array([0.1, 0.2, 0.3])), pose=POSE, surface=surface, material=material),
        Shape(name="ball", geometry=Sphere(0.1), visual=False, contype=2, conaffinity=6, group=4),
        Shape(name="egg", geometry=Ellipsoid(np.array([0.1, 0.2, 0.3])), collision=False, mass=0.5),
        Shape(name="pill", geometry=Capsule(0.1, 0.4), density=300.0),
        Shape(name="can", geometry=Cylinder(0.1, 0.4), enabled=False),
        Shape(name="hat", geometry=Cone(0.1, 0.4)),
        Shape(name="mesh", geometry=inline, pose=OTHER),
        Shape(
            name="bound",
            geometry=Mesh(vertices=mesh.vertices, faces=mesh.faces, approximation=Approximation.BOUNDING_CUBE),
            visual=False,
        ),
        Shape(
            name="pieces",
            geometry=Mesh(vertices=mesh.vertices, faces=mesh.faces, approximation=Approximation.CONVEX_DECOMPOSITION),
        ),
        Shape(name="missing", geometry=Mesh(uri="package://lost/lost.stl")),
        Shape(name="wall", geometry=Plane()),
    ]


def _main_joints() -> list[Joint]:
    shoulder = rotation(
        (0.0, 0.6, 0.8),
        lower=-1.0,
        upper=2.0,
        velocity=3.0,
        effort=40.0,
        acceleration=5.0,
        deceleration=6.0,
        jerk=7.0,
        reference=0.1,
        stiffness=8.0,
        spring_reference=0.2,
        damping=9.0,
        friction=0.3,
        armature=0.4,
    )
    shoulder.drive = Drive(stiffness=50.0, damping=6.0, target_position=0.7, target_velocity=0.8, max_force=9.0)
    shoulder.limit_solver = SOLVER
    shoulder.friction_solver = SolverParameters(solref=(0.04, 0.8))
    wrist = rotation((0.0, 0.0, 1.0))
    wrist.mimic = Mimic(joint="shoulder", multiplier=2.0, offset=0.5, reference=0.25)
    elbow = translation((1.0, 0.0, 0.0), lower=-1.0, reference=0.2)
    elbow.drive = Drive(stiffness=50.0, type=DriveType.ACCELERATION)
    return [
        Joint(
            name="shoulder",
            kind=JointKind.REVOLUTE,
            parent="base",
            child="upper",
            parent_pose=POSE,
            child_pose=OTHER,
            axes=[shoulder],
            state=np.array([0.1]),
            break_force=10.0,
            break_torque=20.0,
            attributes={"urdf:calibration": {"rising": 1.0}},
            extras=[Extra("urdf", "x", "<x/>")],
        ),
        Joint(
            name="elbow", kind=JointKind.PRISMATIC, parent="upper", child="lower", axes=[elbow], state=np.array([0.2])
        ),
        Joint(
            name="wrist", kind=JointKind.CONTINUOUS, parent="lower", child="hand", axes=[wrist], collision_enabled=True
        ),
        Joint(
            name="ghostly",
            kind=JointKind.REVOLUTE,
            parent="hand",
            child="ghost",
            axes=[rotation((1.0, 0.0, 0.0))],
            initial=np.array([0.3]),
        ),
        Joint(name="oddly", kind=JointKind.FIXED, parent="hand", child="odd", parent_pose=OTHER),
    ]


def _every_kind() -> list[Joint]:
    z, x = (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)
    made = {
        JointKind.FIXED: [],
        JointKind.REVOLUTE: [rotation(z, lower=0.5, upper=0.5)],
        JointKind.CONTINUOUS: [rotation(z)],
        JointKind.PRISMATIC: [translation(z, lower=1.0, upper=-1.0)],
        JointKind.SPHERICAL: spherical_axes(),
        JointKind.CYLINDRICAL: [rotation(z), translation(z)],
        JointKind.PLANAR: [translation(x), translation((0.0, 1.0, 0.0)), rotation(z)],
        JointKind.UNIVERSAL: [rotation(x), rotation(z)],
        JointKind.SCREW: [rotation(z)],
        JointKind.FREE: free_axes(),
        JointKind.SIX_AXIS: [translation(x), rotation(z)],
    }
    joints = [
        Joint(
            name=k.value, kind=k, parent="base", child=f"link of {k.value}", parent_pose=POSE, child_pose=OTHER, axes=a
        )
        for k, a in made.items()
    ]
    for joint in joints:
        if joint.kind is JointKind.SCREW:
            joint.pitch = 0.05
        if joint.kind is JointKind.SPHERICAL:
            joint.cone = ConeLimit(angle_y=0.5, angle_z=0.7, axis=1)
        if joint.kind is JointKind.SIX_AXIS:
            joint.distance = (0.1, 3.0)
    return joints


def _loops() -> list[Joint]:
    ends = {"parent": "hand", "child": "base", "closes_loop": True}
    rope = Joint(name="rope", kind=JointKind.DISTANCE, distance=(0.5, 5.0), **ends)  # type: ignore[arg-type]
    hinge = Joint(name="closing", kind=JointKind.REVOLUTE, axes=[rotation((0.0, 0.0, 1.0), lower=-1, upper=1)], **ends)  # type: ignore[arg-type]
    off = Joint(name="switched off", kind=JointKind.FIXED, enabled=False, **ends)  # type: ignore[arg-type]
    lost = Joint(name="dangling", kind=JointKind.FIXED, parent="hand", child="nobody")
    return [rope, hinge, off, lost]


# -- what moves and measures it ---------------------------------------------------------------------------------------


def _constraints() -> list[Constraint]:
    frames = {"a": "hand", "b": "base", "pose_a": POSE, "pose_b": OTHER}
    polynomial = (0.1, 0.2, 0.3, 0.4, 0.5)
    return [
        Constraint(name="connect", kind=ConstraintKind.CONNECT, **frames),  # type: ignore[arg-type]
        Constraint(name="weld", kind=ConstraintKind.WELD, torque_scale=0.5, solver=SOLVER, active=False, **frames),  # type: ignore[arg-type]
        Constraint(name="couple", kind=ConstraintKind.JOINT, a="shoulder", b="elbow", polynomial=polynomial),
        Constraint(name="axis", kind=ConstraintKind.JOINT, a="planar", b="cylindrical", axis_a=2, axis_b=1),
        Constraint(name="length", kind=ConstraintKind.TENDON, a="cable"),
        Constraint(name="distance", kind=ConstraintKind.DISTANCE, distance=0.7, **frames),  # type: ignore[arg-type]
        Constraint(name="gear", kind=ConstraintKind.GEAR, a="link of revolute", b="hand", reference="base", ratio=3.0),
        Constraint(name="other", kind=ConstraintKind.OTHER, attributes={"mjcf:type": "flex"}),
    ]


def _tendon() -> Tendon:
    return Tendon(
        name="cable",
        path=[
            TendonPathItem(kind=TendonPathKind.SITE, target="tip"),
            TendonPathItem(kind=TendonPathKind.WRAP, target="ball", side="elbow frame"),
            TendonPathItem(kind=TendonPathKind.SITE, target="elbow frame"),
            TendonPathItem(kind=TendonPathKind.PULLEY, coefficient=2.0),
            TendonPathItem(kind=TendonPathKind.SITE, target="tip"),
            TendonPathItem(kind=TendonPathKind.SITE, target="elbow frame"),
        ],
        lower=0.1,
        upper=3.0,
        stiffness=2.0,
        damping=0.3,
        friction=0.4,
        spring_length=(0.5, 0.6),
        force_range=(-3.0, 4.0),
        width=0.01,
        color=(0.1, 0.2, 0.3, 1.0),
        limit_solver=SOLVER,
        friction_solver=SolverParameters(solref=(0.05, 0.7)),
    )


def _actuators() -> list[Actuator]:
    return [
        Actuator(
            name="motor",
            transmission=Transmission.JOINT,
            target="shoulder",
            gear=(3.0, 0.0, 0.0, 0.0, 0.0, 0.0),
            control_range=(-1.0, 2.0),
            force_range=(-3.0, 4.0),
            settings={"group": 2, "colour": "red"},
        ),
        Actuator(
            name="filtered",
            transmission=Transmission.TENDON,
            target="cable",
            gain_type="affine",
            gain=(1.0, 2.0, 3.0),
            bias_type="affine",
            bias=(4.0, 5.0, 6.0),
            dynamics_type="filter",
            dynamics=(0.1,),
            activation_range=(-1.0, 1.0),
            length_range=(0.1, 0.9),
        ),
        Actuator(
            name="crank",
            transmission=Transmission.SLIDER_CRANK,
            target="tip",
            reference="elbow frame",
            crank_length=0.4,
        ),
        Actuator(name="nowhere", transmission=Transmission.JOINT, target="no such joint"),
    ]


def _sensors() -> list[Sensor]:
    return [
        Sensor(name="gyro", kind="gyro", target_kind="frame", target="tip", noise=0.1, cutoff=2.0, update_rate=100.0),
        Sensor(
            name="pose",
            kind="framepos",
            target_kind="link",
            target="hand",
            reference_kind="frame",
            reference="elbow frame",
            settings={"shade": 1},
        ),
        Sensor(name="imu", kind="imu", target_kind="link", target="hand", pose=POSE),
        Sensor(name="lidar", kind="gpu_lidar", target_kind="link", target="hand"),
        Sensor(name="moved", kind="jointpos", target_kind="joint", target="elbow", pose=POSE),
    ]


def _cart() -> Robot:
    robot = Robot(name="cart robot", links=[Link(name="cart", inertial=inertial()), Link(name="mat")], base=Base.FREE)
    robot.joints = [Joint(name="mat_fixed", kind=JointKind.FIXED, parent="cart", child="mat", implicit=True)]
    robot.links[0].linear_velocity = np.array([1.0, 2.0, 3.0])
    robot.static = False
    return robot
