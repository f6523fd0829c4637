"""Nothing is lost silently: every field of every part, set by itself, comes back or is named in the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.core import Pose
from kinema.description import (
    Actuator,
    Approximation,
    Axis,
    Base,
    Box,
    Camera,
    CollisionGroup,
    CollisionPair,
    CollisionRules,
    ConeLimit,
    Constraint,
    ConstraintKind,
    Cylinder,
    Drive,
    Extra,
    Frame,
    Inertial,
    Joint,
    JointKind,
    Keyframe,
    Light,
    Link,
    Mesh,
    Mimic,
    PhysicsMaterial,
    Robot,
    Sensor,
    Shape,
    SolverParameters,
    Sphere,
    Tendon,
    Transmission,
    VisualMaterial,
    rotation,
)
from kinema.geometry import Texture, TextureMapping, box
from kit.written.sdf import Written

PLACED = Pose.from_rpy((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
SOLVER = SolverParameters(solref=(0.01, 0.9))
CUBE = box((1.0, 1.0, 1.0))


def _robot() -> Robot:
    """A robot with one of each part."""
    links = [Link(name=n, inertial=Inertial(1.0, np.zeros(3), np.eye(3)), pose=Pose()) for n in ("base", "arm", "tip")]
    links[0].shapes = [Shape(name="foot", geometry=Sphere(0.1), visual=False)]
    collide = Shape(name="collide", geometry=Box(np.ones(3)), visual=False, surface=PhysicsMaterial())
    mesh = Mesh(vertices=CUBE.vertices, faces=CUBE.faces)
    see = Shape(name="see", geometry=mesh, collision=False, material=VisualMaterial())
    links[1].shapes = [collide, see]
    joints = [Joint(name="j", kind=JointKind.REVOLUTE, parent="base", child="arm", axes=[rotation((0, 0, 1))])]
    joints.append(Joint(name="k", kind=JointKind.REVOLUTE, parent="arm", child="tip", axes=[rotation((0, 0, 1))]))
    robot = Robot(name="robot", links=links, joints=joints, base=Base.FREE)
    robot.frames = [Frame(name="site", link="arm")]
    robot.cameras = [Camera(name="eye", link="arm", resolution=(640, 480), clip=(0.1, 10.0))]
    robot.lights = [Light(name="lamp", kind="spot", link="arm")]
    robot.sensors = [Sensor(name="feel", kind="imu", target_kind="link", target="arm")]
    return robot


def _shape(robot: Robot, name: str) -> Shape:
    return next(s for link in robot.links for s in link.shapes if s.name == name)


WHERE: dict[type, tuple[str, Callable[[Robot], Any]]] = {
    Robot: ("robot", lambda r: r),
    CollisionRules: ("robot", lambda r: r.collision),
    Link: ("arm", lambda r: r.link("arm")),
    Inertial: ("arm", lambda r: r.link("arm").inertial),
    Shape: ("collide", lambda r: _shape(r, "collide")),
    PhysicsMaterial: ("collide", lambda r: _shape(r, "collide").surface),
    VisualMaterial: ("see", lambda r: _shape(r, "see").material),
    Mesh: ("see", lambda r: _shape(r, "see").geometry),
    Joint: ("k", lambda r: r.joint("k")),
    Axis: ("k", lambda r: r.joint("k").axes[0]),
    Frame: ("site", lambda r: r.frames[0]),
    Camera: ("eye", lambda r: r.cameras[0]),
    Light: ("lamp", lambda r: r.lights[0]),
    Sensor: ("feel", lambda r: next(s for s in r.sensors if s.name == "feel")),
}
"""For each kind of part its name and where it is in a robot."""

_EXTRA = [Extra("mjcf", "custom", "<custom/>")]
_NODE = {"extras": _EXTRA, "attributes": {"mjcf:user": (1.0,)}}
VALUES: dict[type, dict[str, Any]] = {
    Robot: {
        **_NODE,
        "gravity": np.array([0.0, 0.0, -1.6]),
        "constraints": [Constraint(name="rope", kind=ConstraintKind.DISTANCE, a="base", b="tip")],
        "actuators": [Actuator(name="motor", transmission=Transmission.JOINT, target="k")],
        "tendons": [Tendon(name="wire")],
        "sensors": [Sensor(name="gyro", kind="gyro", target_kind="frame", target="site")],
        "frames": [Frame(name="still", link=None)],
        "cameras": [Camera(name="watch", link=None)],
        "lights": [Light(name="sun", kind="directional", link=None)],
        "keyframes": [Keyframe(name="home")],
        "options": {"timestep": 0.001},
        "pose": PLACED,
        "root": "base",
        "base": Base.FIXED,
        "static": True,
    },
    CollisionRules: {
        "groups": [CollisionGroup(name="group", members=["arm"], filtered=["group"])],
        "pairs": [CollisionPair(a="base", b="tip")],
        "self_collide": False,
        "neighbours_collide": True,
    },
    Link: {
        **_NODE,
        "inertial": None,
        "inertial_is_computed": True,
        "density": 700.0,
        "enabled": False,
        "kinematic": True,
        "starts_asleep": True,
        "continuous_collision": True,
        "gravity_scale": 0.5,
        "self_collide": False,
        "linear_velocity": np.array([1.0, 0.0, 0.0]),
        "angular_velocity": np.array([1.0, 0.0, 0.0]),
    },
    Inertial: {"mass": 2.0, "center": np.ones(3), "inertia": np.diag([0.2, 0.2, 0.3])},
    Shape: {
        **_NODE,
        "geometry": Cylinder(0.25, 0.5),
        "pose": PLACED,
        "mass": 1.0,
        "density": 500.0,
        "contype": 2,
        "conaffinity": 4,
        "group": 3,
        "enabled": False,
        "material": VisualMaterial(name="paint"),
    },
    PhysicsMaterial: {
        **_NODE,
        "static_friction": 0.9,
        "dynamic_friction": 0.8,
        "dynamic_friction2": 0.7,
        "torsional_friction": 0.01,
        "rolling_friction": 0.02,
        "restitution": 0.5,
        "density": 500.0,
        "contact_stiffness": 1e5,
        "contact_damping": 10.0,
        "contact_dimension": 4,
        "gap": 0.01,
        "priority": 2,
        "solmix": 0.5,
        "solver": SOLVER,
    },
    VisualMaterial: {
        **_NODE,
        "color": (0.1, 0.2, 0.3, 0.4),
        "emission": (0.1, 0.0, 0.0),
        "specular": 0.5,
        "metallic": 0.6,
        "roughness": 0.7,
        "reflectance": 0.8,
        "clearcoat": 0.9,
        "clearcoat_roughness": 0.25,
        "opacity_threshold": 0.5,
        "double_sided": True,
        "texture_mapping": TextureMapping(scale=(2.0, 3.0)),
        "maps": {"bump": Texture(file="/nowhere/bump.png")},
    },
    Mesh: {
        "submesh": "part",
        "approximation": Approximation.SDF,
        "max_hull_vertices": 32,
    },
    Joint: {
        **_NODE,
        "child_pose": PLACED,
        "parent_pose": PLACED,
        "initial": np.array([0.5]),
        "state": np.array([0.5]),
        "cone": ConeLimit(angle_y=0.5, angle_z=0.6),
        "distance": (0.1, 0.2),
        "enabled": False,
        "closes_loop": True,
        "collision_enabled": True,
        "break_force": 12.0,
        "break_torque": 13.0,
    },
    Axis: {
        "direction": np.array([0.6, 0.8, 0.0]),
        "locked": True,
        "lower": -1.0,
        "upper": 2.0,
        "velocity": 3.0,
        "effort": 4.0,
        "acceleration": 5.0,
        "deceleration": 6.0,
        "jerk": 7.0,
        "stiffness": 8.0,
        "spring_reference": 0.1,
        "damping": 9.0,
        "friction": 10.0,
        "armature": 11.0,
        "drive": Drive(stiffness=1.0),
        "mimic": Mimic(joint="j", multiplier=2.0, offset=0.5, reference=0.25),
        "limit_solver": SOLVER,
        "friction_solver": SOLVER,
    },
    Frame: {**_NODE, "link": "tip", "pose": PLACED, "marker": Sphere(0.1), "color": (1.0, 0.0, 0.0, 1.0)},
    Camera: {
        **_NODE,
        "link": "tip",
        "pose": PLACED,
        "vertical_fov": 0.5,
        "resolution": (64, 32),
        "clip": (0.5, 5.0),
        "settings": {"ipd": 0.1},
    },
    Light: {
        **_NODE,
        "kind": "directional",
        "link": "tip",
        "pose": PLACED,
        "color": (0.1, 0.2, 0.3),
        "casts_shadow": False,
        "settings": {"exponent": 3.0},
    },
    Sensor: {
        **_NODE,
        "kind": "altimeter",
        "target_kind": "joint",
        "target": "tip",
        "reference_kind": "link",
        "reference": "base",
        "pose": PLACED,
        "noise": 0.1,
        "cutoff": 0.2,
        "update_rate": 50.0,
        "settings": {"axis": 2},
    },
}
"""For each kind of part another value of each of its fields."""
ELSEWHERE = {
    "Robot": {"links", "joints", "collision"},
    "Assembly": {"format", "source", "diagnostics"},
    "Node": {"name", "name_is_generated", "origin", "order"},
    "Link": {"shapes", "pose", "nested_in"},
    "Shape": {"collision", "visual", "surface"},
    "VisualMaterial": {"texture", "mean_texture_color"},
    "Mesh": {
        "uri",
        "path",
        "vertices",
        "faces",
        "scale",
        "center_submesh",
        "appearance",
        "projection",
        "sdf_resolution",
    },
    "Joint": {"kind", "parent", "child", "axes", "pitch", "implicit", "stacked"},
    "Axis": {"motion", "reference"},
    "Sensor": {"reference_kind"},
}
"""Fields that say where something was read from, that hold the other parts, or that other tests set."""


def _cases() -> Iterator[Any]:
    for kind, fields in VALUES.items():
        for field in fields:
            if field != "reference_kind":
                yield pytest.param(kind, field, id=f"{kind.__name__}.{field}")


def test_all_fields_are_tried() -> None:
    """A new field of a part has to be thought of here."""
    for kind, values in VALUES.items():
        skip = set().union(*(ELSEWHERE.get(base.__name__, set()) for base in kind.__mro__))
        missing = {f.name for f in dataclasses.fields(kind)} - set(values) - skip
        assert not missing, f"{kind.__name__}: {missing}"


@pytest.mark.parametrize(("kind", "field"), list(_cases()))
def test_a_field_comes_back_or_is_named(kind: type, field: str, tmp_path: Path) -> None:
    """Set by itself, it is read again from the file, or the report has a line more that names its owner."""
    name, where = WHERE[kind]
    plain = Written.make(_robot(), tmp_path / "plain")
    robot = _robot()
    value = VALUES[kind][field]
    part = where(robot)
    if dataclasses.is_dataclass(part) and type(part).__dataclass_params__.frozen:  # type: ignore[attr-defined]
        _put(robot, kind, dataclasses.replace(part, **{field: value}))  # type: ignore[type-var]
    else:
        setattr(part, field, value)
    written = Written.make(robot, tmp_path / "set")
    more = {str(x): x.name for x in written.report if str(x) not in {str(y) for y in plain.report}}
    names = {name, f"of {name}", *(getattr(v, "name", "") for v in (value if isinstance(value, list) else [value]))}
    names |= {"base and tip"} if field == "pairs" else set()
    if names & set(more.values()):
        return
    (again,) = written.read()
    assert _is_same(getattr(where(again), field), value), more


def _put(robot: Robot, kind: type, part: Any) -> None:
    if kind is Inertial:
        robot.link("arm").inertial = part
    else:
        _shape(robot, "see").geometry = part


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(b, Pose):
        return a.is_close(b, 1e-12)
    if dataclasses.is_dataclass(b):
        return type(a) is type(b) and all(
            _is_same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(b)
        )
    if isinstance(b, float | np.ndarray):
        return np.allclose(a, b, rtol=1e-14)
    return bool(a == b)
