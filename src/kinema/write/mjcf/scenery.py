"""Sites, cameras and lights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kinema.description import Assembly, Camera, Frame, Light, Node, Robot
from kinema.foundation import Pose
from kinema.words import mjcf, sdf

from ..text import Element, number, numbers
from .geoms import marker_attributes
from .numbers import degrees_text, direction_text, pose_attributes, text_or_none, trimmed, vector_text
from .writing import Writing

_OUTPUTS = ("rgb", "depth", "distance", "normal", "segmentation")
_DEFAULT_COLOR = (0.5, 0.5, 0.5, 1.0)
_LIGHT_DEFAULTS: dict[str, Any] = {
    mjcf.AMBIENT: (0.0, 0.0, 0.0),
    mjcf.SPECULAR: (0.3, 0.3, 0.3),
    mjcf.ATTENUATION: (1.0, 0.0, 0.0),
    mjcf.CUTOFF: 45.0,
    mjcf.EXPONENT: 10.0,
    mjcf.BULBRADIUS: 0.02,
    mjcf.INTENSITY: 0.0,
    mjcf.RANGE: 10.0,
    mjcf.SOFTNESS: 0.2,
}
"""MuJoCo's own."""


def write_scenery(writing: Writing) -> None:
    """The sites, cameras and lights of robots and the world, into their bodies."""
    for home in writing.homes:
        for frame in home.frames:
            _put(writing, home, mjcf.SITE, frame, frame.link, _site(writing, home, frame))
        for camera in home.cameras:
            _put(writing, home, mjcf.CAMERA, camera, camera.link, _camera(writing, home, camera))
        for light in home.lights:
            _put(writing, home, mjcf.LIGHT, light, light.link, _light(writing, home, light))


def _put(writing: Writing, home: Assembly, kind: str, node: Node, link: str | None, element: Element) -> None:
    """Into the element of its body, before the bodies in there."""
    holder = writing.section(mjcf.WORLDBODY)
    if link is not None:
        found = writing.names.find(mjcf.BODY, link, home)
        body = None if found is None else writing.body_of.get(id(found.node))
        if body is None or body.element is None:
            writing.drop(node, f"the {kind}", f"there is no link {link!r}")
            return
        holder = body.element
    entry = writing.names.add(kind, node, home, shown=not node.name_is_generated and bool(node.name))
    entry.element = element
    tags = [getattr(child, "tag", "") for child in holder.children]
    place = tags.index(mjcf.BODY) if mjcf.BODY in tags else len(tags)
    holder.children.insert(place, element)


def _placed(home: Assembly, link: str | None, pose: Pose) -> Pose:
    """A pose on a link; one on no link is on the robot's base, or in the world."""
    return home.pose @ pose if link is None and isinstance(home, Robot) else pose


def _site(writing: Writing, home: Assembly, frame: Frame) -> Element:
    element = Element(mjcf.SITE)
    element.set(pose_attributes(_placed(home, frame.link, frame.pose)))
    element.set(marker_attributes(writing, frame, frame.marker))
    group, user = writing.take(frame, mjcf.GROUP, 0), writing.take(frame, mjcf.USER)
    material = writing.take(frame, mjcf.MATERIAL, "")
    look = writing.materials.color_of(material)
    if material and look is None:
        writing.drop(frame, f"its material {material!r}", "no shape has it")
    color = frame.color
    element.set(
        {
            "material": None if look is None else material,
            "rgba": None if color is None or color in (_DEFAULT_COLOR, look) else numbers(color),
            "group": str(group) if group else None,
            "user": None if user is None else trimmed(user),
            "class": writing.take(frame, mjcf.CLASS, "") or None,
        }
    )
    return element


# -- cameras ----------------------------------------------------------------------------------------------------------


def _camera(writing: Writing, home: Assembly, camera: Camera) -> Element:
    settings, is_own = camera.settings, home.format == mjcf.FORMAT or mjcf.IPD in camera.settings
    element = Element(mjcf.CAMERA)
    element.set(pose_attributes(_placed(home, camera.link, camera.pose)))
    element.set(_mode(writing, home, settings))
    orthographic = writing.take_from(settings, mjcf.PROJECTION) == mjcf.ORTHOGRAPHIC
    size = writing.take_from(settings, mjcf.SENSORSIZE)
    lens: Sequence[float] = writing.take_from(settings, mjcf.INTRINSIC) or (0.0, 0.0, 0.0, 0.0)
    height = writing.take_from(settings, mjcf.HEIGHT, 0.0)
    if size and _has_lens(camera, size, lens):
        element.set({"sensorsize": numbers(size), "focal": numbers(lens[:2])})
        element.set({"principal": numbers(lens[2:4]) if any(lens[2:4]) else None})
    elif orthographic:
        element.set({mjcf.PROJECTION: mjcf.ORTHOGRAPHIC, "fovy": number(height)})
    elif 0 < camera.vertical_fov < math.pi:
        fov = degrees_text(camera.vertical_fov)
        element.set({"fovy": None if fov == "45" else fov})
    else:
        writing.drop(camera, "its field of view", "it is no angle between 0 and 180 degrees")
    output = writing.take_from(settings, mjcf.OUTPUT, 1)
    user = writing.take_from(settings, mjcf.USER)
    spread = writing.take_from(settings, mjcf.IPD, 0.0 if is_own else 0.068)
    element.set(
        {
            "resolution": None if camera.resolution is None else numbers(camera.resolution),
            "ipd": text_or_none(spread, 0.068) if spread else "0",
            "output": _bits(output) if output != 1 else None,
            "user": None if user is None else trimmed(user),
        }
    )
    if camera.clip is not None:
        writing.drop(camera, "how near and far it sees", "MuJoCo has that once, for all cameras")
    if not is_own:
        writing.take_from(settings, sdf.HORIZONTAL_FOV)  # it follows from the vertical one and the resolution
        writing.take_from(settings, sdf.SENSOR)
    return element


def _has_lens(camera: Camera, size: Sequence[float], lens: Sequence[float]) -> bool:
    """Whether the field of view is still the one that follows from the lens."""
    implied = 2 * math.atan(size[1] / (2 * lens[1])) if lens[1] > 0 else math.nan
    return math.isclose(implied, camera.vertical_fov, rel_tol=1e-4)


def _bits(bits: int) -> str:
    return " ".join(word for bit, word in enumerate(_OUTPUTS) if bits >> bit & 1)


def _mode(writing: Writing, home: Assembly, settings: Mapping[str, Any]) -> dict[str, str | None]:
    """How a camera or light follows bodies."""
    mode = writing.take_from(settings, mjcf.MODE, "")
    target = writing.take_from(settings, mjcf.TARGET, "")
    return {"mode": mode or None, "target": writing.names.refer(mjcf.BODY, target, home) if target else None}


# -- lights -----------------------------------------------------------------------------------------------------------


def _light(writing: Writing, home: Assembly, light: Light) -> Element:
    settings, is_own = light.settings, home.format == mjcf.FORMAT or mjcf.ACTIVE in light.settings
    pose = _placed(home, light.link, light.pose)
    element = Element(mjcf.LIGHT)
    kind = writing.take_from(settings, mjcf.TYPE, "") or light.kind
    direction = -pose.rotation[:, 2]
    texture = writing.take_from(settings, mjcf.TEXTURE, "")
    element.set(
        {
            "pos": vector_text(pose.position) if pose.position.any() else None,
            "dir": None if direction_text(direction) == "0 0 -1" else direction_text(direction),
            "type": None if kind == "spot" else kind,
            "diffuse": None if tuple(light.color) == (0.7, 0.7, 0.7) else numbers(light.color),
            "castshadow": None if light.casts_shadow else "false",
            "active": None if writing.take_from(settings, mjcf.ACTIVE, True) else "false",
            "texture": texture or None,
            **_mode(writing, home, settings),
        }
    )
    if not is_own:
        writing.take_from(settings, sdf.DIRECTION)  # it is in the pose
        return element
    for name, default in _LIGHT_DEFAULTS.items():
        # the reader leaves out what is zero
        zero = (0.0, 0.0, 0.0) if isinstance(default, tuple) else 0.0
        value = writing.take_from(settings, name, zero)
        if value != default:
            element.set({name: numbers(value) if isinstance(value, tuple) else number(value)})
    return element
