"""What SDFormat's sensors measure, and with which noise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.description import Robot, World
from kinema.foundation import Pose
from kinema.words import sdf

from .draft import Body, Spot
from .sensor_draft import DraftReading, Flaw, Looking
from .sensor_kinds import Maker, Unable, rays

_AXES = ("x", "y", "z")
_MOST_RAYS = 1_000_000


def _child(tree: Any, *path: str) -> Any:
    """What a tree of settings holds under some tags; None where there is no such thing."""
    for tag in path:
        tree = tree.get(tag) if isinstance(tree, dict) else None
    return tree


def _number(looking: Looking, tree: Any, default: float, *path: str) -> float:
    text = _child(tree, *path)
    try:
        return default if text is None else float(text)
    except (TypeError, ValueError):
        message = f'sensor "{looking.sensor.name}": {path[-1]} is no number; it counts as {default:g}'
        looking.draft.diagnostics.warning("sim.sensor-part", message, origin=looking.sensor.origin)
        return default


def _flaw(looking: Looking, noise: Any) -> Flaw:
    """A `<noise>` block: Gaussian, with a constant bias, perhaps in steps."""
    if not isinstance(noise, dict):
        return Flaw()
    kind = str(noise.get(f"@{sdf.TYPE}", noise.get(sdf.TYPE, "none")))
    if kind == "none":
        return Flaw()
    if kind not in ("gaussian", "gaussian_quantized"):
        message = f'noise of type "{kind}" of sensor "{looking.sensor.name}" is not simulated'
        looking.draft.diagnostics.warning("sim.sensor-part", message, origin=looking.sensor.origin)
        return Flaw()
    if _number(looking, noise, 0.0, "dynamic_bias_stddev"):
        message = f'the bias of sensor "{looking.sensor.name}" stays as it is: that it drifts is not simulated'
        looking.draft.diagnostics.warning("sim.sensor-part", message, origin=looking.sensor.origin)
    return Flaw(
        noise=_number(looking, noise, 0.0, "stddev"),
        bias_mean=_number(looking, noise, 0.0, "mean") + _number(looking, noise, 0.0, "bias_mean"),
        bias_std=_number(looking, noise, 0.0, "bias_stddev"),
        resolution=_number(looking, noise, 0.0, "precision") if kind == "gaussian_quantized" else 0.0,
    )


def _flaws(looking: Looking, tree: Any) -> Sequence[Flaw]:
    """Of three axes: each its own, or one for all (up to SDFormat 1.4)."""
    return [_flaw(looking, _child(tree, axis, "noise")) for axis in _AXES]


def _mounted(looking: Looking) -> tuple[Spot, Body]:
    """Where a sensor sits on its link."""
    body = looking.body(looking.sensor.target)
    if body is None:
        raise Unable(f'its link "{looking.sensor.target}" is not there')
    return Spot(body.frame, body.place @ looking.sensor.pose), body


def _imu(looking: Looking) -> list[DraftReading]:
    (at, body), own = _mounted(looking), looking.sensor.settings.get("imu")
    parts = (("orientation", "framequat", 4), ("angular_velocity", "gyro", 3))
    parts = (*parts, ("linear_acceleration", "accelerometer", 3))
    return [
        DraftReading(
            kind,
            width,
            at,
            item=body.index,
            part=part,
            flaws=[Flaw()] if width == 4 else _flaws(looking, _child(own, part)),
        )
        for part, kind, width in parts
    ]


def _magnetometer(looking: Looking) -> list[DraftReading]:
    (at, body), own = _mounted(looking), looking.sensor.settings.get("magnetometer")
    return [DraftReading("magnetometer", 3, at, item=body.index, flaws=_flaws(looking, own))]


def _altimeter(looking: Looking) -> list[DraftReading]:
    (at, body), own = _mounted(looking), looking.sensor.settings.get("altimeter")
    flaws = [_flaw(looking, _child(own, part, "noise")) for part in ("vertical_position", "vertical_velocity")]
    return [
        DraftReading(f"{word}height", 1, at, item=body.index, part=part, flaws=[flaw])
        for word, part, flaw in zip(("", "speed of "), ("vertical_position", "vertical_velocity"), flaws, strict=True)
    ]


def _force_torque(looking: Looking) -> list[DraftReading]:
    """What a joint bears, at the sensor; the force of the child on its parent, or the other way round."""
    sensor, own = looking.sensor, looking.sensor.settings.get("force_torque")
    named = looking.named("joints", sensor.target)
    if sensor.target_kind != "joint" or named is None:
        raise Unable(f'the joint "{sensor.target}" is not there')
    joint, owner = named
    ends = [None if name is None else looking.body(name, owner) for name in (joint.child, joint.parent)]  # type: ignore[attr-defined]  # ty: ignore[missing-attribute]
    child, parent = ends
    if child is None:
        raise Unable("its joint holds the world")
    below, sign = (child, 1.0) if child.parent is parent else (parent, -1.0)
    if below is None or (below is parent and below.parent is not child):
        raise Unable("its joint closes a loop")
    if str(_child(own, "measure_direction") or "child_to_parent").strip() != "parent_to_child":
        sign = -sign
    pose = child.place @ joint.child_pose @ sensor.pose  # type: ignore[attr-defined]  # ty: ignore[missing-attribute]
    axes = {"child": child.place.rotation, "sensor": pose.rotation}
    frame, word = child.frame, str(_child(own, "frame") or "child").strip()
    seen_from = None
    if word == "parent":
        seen_from = Spot(-1, Pose()) if parent is None else Spot(parent.frame, parent.place)
    at = Spot(frame, Pose(pose.position, axes.get(word, axes["child"])))
    return [
        DraftReading(
            kind,
            3,
            at,
            seen_from,
            item=below.index,
            numbers=(sign,),
            part=kind,
            flaws=_flaws(looking, _child(own, kind)),
        )
        for kind in ("force", "torque")
    ]


def _contact(looking: Looking) -> list[DraftReading]:
    """How many contacts each of its collisions has, and the sum of their forces on it, along the world's axes."""
    (_, body), named = _mounted(looking), _child(looking.sensor.settings.get(looking.sensor.kind), "collision")
    names = [str(x).strip() for x in (named if isinstance(named, list) else [named]) if x]
    own = {shape.name for shape in body.link.shapes if shape.collision}
    missing = [name for name in names if name not in own]
    if missing or not names:
        raise Unable(f"its link has no collision {', '.join(missing) or 'that it names'}")
    return [
        DraftReading(
            "contact",
            4,
            words=("found force", "netforce", ""),
            numbers=(1.0, 0.0, 0.0, 0.0),
            about=("any -1 ", f"shape {body.index} {name}"),
            part=name,
        )
        for name in names
    ]


def _angles(looking: Looking, scan: Any, which: str) -> np.ndarray:
    own = _child(scan, which)
    if own is None:
        return np.zeros(1)
    count = int(_number(looking, own, 1.0, "samples") * _number(looking, own, 1.0, "resolution"))
    low, high = _number(looking, own, 0.0, "min_angle"), _number(looking, own, 0.0, "max_angle")
    if not 1 <= count <= _MOST_RAYS:
        raise Unable(f"it asks for {count} rays")
    return np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])


def _lidar(looking: Looking) -> list[DraftReading]:
    """Rays about x, from right to left, row by row upwards."""
    (at, body), sensor = _mounted(looking), looking.sensor
    own = sensor.settings.get("lidar", sensor.settings.get("ray"))
    across, up = (_angles(looking, _child(own, "scan"), which) for which in ("horizontal", "vertical"))
    if len(across) * len(up) > _MOST_RAYS:
        raise Unable(f"it asks for {len(across) * len(up)} rays")
    v, h = np.meshgrid(up, across, indexing="ij")
    directions = np.stack([np.cos(v) * np.cos(h), np.cos(v) * np.sin(h), np.sin(v)], axis=-1).reshape(-1, 3)
    low, high = _number(looking, own, 0.0, "range", "min"), _number(looking, own, np.inf, "range", "max")
    flaw = _flaw(looking, _child(own, "noise"))
    flaw.resolution = flaw.resolution or _number(looking, own, 0.0, "range", "resolution")
    reading = DraftReading("rays", 0, at, item=body.index, numbers=(low, min(high, 1e15)), flaws=[flaw])
    return [rays(looking, reading, directions, ("inf", "visual" if sensor.kind.startswith("gpu") else "collision"))]


def _rendered(looking: Looking) -> list[DraftReading]:
    raise Unable("it takes pictures, which nobody draws here")


def _unknown(looking: Looking) -> list[DraftReading]:
    raise Unable("nobody simulates what it measures")


SDF: dict[str, Maker] = {
    "imu": _imu,
    "magnetometer": _magnetometer,
    "altimeter": _altimeter,
    "force_torque": _force_torque,
    "contact": _contact,
    **dict.fromkeys(("lidar", "ray", "gpu_lidar", "gpu_ray"), _lidar),
    **dict.fromkeys(
        (
            *("camera", "depth", "depth_camera", "multicamera", "rgbd", "rgbd_camera", "thermal", "thermal_camera"),
            *("boundingbox_camera", "segmentation_camera", "wide_angle_camera", "logical_camera"),
        ),
        _rendered,
    ),
    **dict.fromkeys(("air_pressure", "air_speed", "gps", "navsat", "rfid", "rfidtag", "sonar"), _unknown),
    **dict.fromkeys(("wireless_receiver", "wireless_transmitter", "custom", "none"), _unknown),
}
"""By SDFormat's words."""


def field_of_world(description: Robot | World) -> tuple[float, ...] | None:
    """The `<magnetic_field>` of a world [T]; None where its file has none."""
    for extra in description.extras:
        if extra.tag == "magnetic_field":
            numbers = re.findall(r"[-+.\deE]+", re.sub(r"<[^>]*>", " ", extra.text))
            if len(numbers) == 3:
                return tuple(float(x) for x in numbers)
    return None
