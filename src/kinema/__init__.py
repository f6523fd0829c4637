"""Kinema, the robot compiler: read, check, convert and simulate robots from USD, URDF, SDFormat, MJCF and CAD.

Everything here is imported when it is first used, so that `import kinema` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kinema import kinematics as kinematics
    from kinema.apps import cluster as cluster
    from kinema.apps.aot import CompiledLibrary as CompiledLibrary, compile_library as compile_library
    from kinema.apps.publish import PublishedSite as PublishedSite, publish as publish
    from kinema.check import check as check
    from kinema.core import (
        Diagnostic as Diagnostic,
        Diagnostics as Diagnostics,
        KinemaError as KinemaError,
        ReadError as ReadError,
        Severity as Severity,
        WriteError as WriteError,
    )
    from kinema.description import Robot as Robot, World as World
    from kinema.kinematics import Kinematics as Kinematics, ik as ik
    from kinema.read import read as read
    from kinema.scene import (
        Altimeter as Altimeter,
        Box as Box,
        Capsule as Capsule,
        ContactSensor as ContactSensor,
        Cylinder as Cylinder,
        DistanceSensor as DistanceSensor,
        Ellipsoid as Ellipsoid,
        Entity as Entity,
        ForceTorque as ForceTorque,
        FrameSensor as FrameSensor,
        Gps as Gps,
        Imu as Imu,
        JointSensor as JointSensor,
        Lidar as Lidar,
        Magnetometer as Magnetometer,
        Mesh as Mesh,
        Plane as Plane,
        RayFan as RayFan,
        Scene as Scene,
        SceneState as SceneState,
        Sphere as Sphere,
        TactileSensor as TactileSensor,
        Terrain as Terrain,
        TouchSensor as TouchSensor,
        gradients as gradients,
        loguniform as loguniform,
        normal as normal,
        uniform as uniform,
    )
    from kinema.write import Loss as Loss, LossReport as LossReport, write as write

_HOME = {
    "Altimeter": "kinema.scene",
    "Box": "kinema.scene",
    "Capsule": "kinema.scene",
    "CompiledLibrary": "kinema.apps.aot",
    "ContactSensor": "kinema.scene",
    "DistanceSensor": "kinema.scene",
    "Cylinder": "kinema.scene",
    "Diagnostic": "kinema.core",
    "Diagnostics": "kinema.core",
    "Ellipsoid": "kinema.scene",
    "Entity": "kinema.scene",
    "ForceTorque": "kinema.scene",
    "FrameSensor": "kinema.scene",
    "Gps": "kinema.scene",
    "Imu": "kinema.scene",
    "JointSensor": "kinema.scene",
    "KinemaError": "kinema.core",
    "Kinematics": "kinema.kinematics",
    "Lidar": "kinema.scene",
    "Loss": "kinema.write",
    "LossReport": "kinema.write",
    "Magnetometer": "kinema.scene",
    "Mesh": "kinema.scene",
    "Plane": "kinema.scene",
    "PublishedSite": "kinema.apps.publish",
    "RayFan": "kinema.scene",
    "ReadError": "kinema.core",
    "Robot": "kinema.description",
    "Scene": "kinema.scene",
    "SceneState": "kinema.scene",
    "Severity": "kinema.core",
    "Sphere": "kinema.scene",
    "Terrain": "kinema.scene",
    "TactileSensor": "kinema.scene",
    "TouchSensor": "kinema.scene",
    "World": "kinema.description",
    "WriteError": "kinema.core",
    "compile_library": "kinema.apps.aot",
    "ik": "kinema.kinematics",
    "loguniform": "kinema.scene",
    "normal": "kinema.scene",
    "publish": "kinema.apps.publish",
    "uniform": "kinema.scene",
}
_VERBS = ("check", "read", "write")
"""Packages that are also functions: see `kinema.core.make_callable`."""
SHOWN_BY = "kinema.apps.viewer"
"""What `Scene.show` opens."""
_PACKAGES = ("kinematics",)
_MODULES = {"cluster": "kinema.apps.cluster", "gradients": "kinema.scene.gradients"}

__all__ = [
    "Altimeter",
    "Box",
    "Capsule",
    "CompiledLibrary",
    "ContactSensor",
    "Cylinder",
    "Diagnostic",
    "Diagnostics",
    "DistanceSensor",
    "Ellipsoid",
    "Entity",
    "ForceTorque",
    "FrameSensor",
    "Gps",
    "Imu",
    "JointSensor",
    "KinemaError",
    "Kinematics",
    "Lidar",
    "Loss",
    "LossReport",
    "Magnetometer",
    "Mesh",
    "Plane",
    "PublishedSite",
    "RayFan",
    "ReadError",
    "Robot",
    "Scene",
    "SceneState",
    "Severity",
    "Sphere",
    "TactileSensor",
    "Terrain",
    "TouchSensor",
    "World",
    "WriteError",
    "check",
    "cluster",
    "compile_library",
    "gradients",
    "ik",
    "kinematics",
    "loguniform",
    "normal",
    "publish",
    "read",
    "uniform",
    "write",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _VERBS or name in _PACKAGES:
        return importlib.import_module(f"kinema.{name}")
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'kinema' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
