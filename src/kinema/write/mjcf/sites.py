"""Sites, cameras and lights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kinema.core import Pose
from kinema.description import Assembly, Camera, Frame, Light, Node, Robot
from kinema.tokens import mjcf, sdf

from ..xml_document import Element, format_number, format_numbers
from .attributes import degrees_text, direction_text, pose_attributes, text_unless_default, trimmed_text, vector_text
from .context import MjcfContext
from .geoms import marker_attributes

_CAMERA_OUTPUTS = ("rgb", "depth", "distance", "normal", "segmentation")
_DEFAULT_SITE_COLOR = (0.5, 0.5, 0.5, 1.0)
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
"""MuJoCo's default light attributes."""


def write_sites_cameras_lights(ctx: MjcfContext) -> None:
    """Write the sites, cameras and lights of all robots and the world into their bodies."""
    for home in ctx.assemblies:
        for frame in home.frames:
            _add_to_body(ctx, home, mjcf.SITE, frame, frame.link, _site_element(ctx, home, frame))
        for camera in home.cameras:
            _add_to_body(ctx, home, mjcf.CAMERA, camera, camera.link, _camera_element(ctx, home, camera))
        for light in home.lights:
            _add_to_body(ctx, home, mjcf.LIGHT, light, light.link, _light_element(ctx, home, light))


def _add_to_body(
    ctx: MjcfContext, assembly: Assembly, kind: str, node: Node, link: str | None, element: Element
) -> None:
    """Insert an element into the body of its link, before child bodies; reports a missing link."""
    holder = ctx.section(mjcf.WORLDBODY)
    if link is not None:
        found = ctx.names.find(mjcf.BODY, link, assembly)
        body = None if found is None else ctx.bodies_by_link.get(id(found.node))
        if body is None or body.element is None:
            ctx.report_dropped(node, f"the {kind}", f"there is no link {link!r}")
            return
        holder = body.element
    entry = ctx.names.register(kind, node, assembly, always_named=not node.name_is_generated and bool(node.name))
    entry.element = element
    tags = [getattr(child, "tag", "") for child in holder.children]
    place = tags.index(mjcf.BODY) if mjcf.BODY in tags else len(tags)
    holder.children.insert(place, element)


def _pose_in_body(assembly: Assembly, link: str | None, pose: Pose) -> Pose:
    """Pose in the link's body, or in the world for elements without link."""
    return assembly.pose @ pose if link is None and isinstance(assembly, Robot) else pose


def _site_element(ctx: MjcfContext, assembly: Assembly, frame: Frame) -> Element:
    """Element of a site with pose, marker geometry, material and colour."""
    element = Element(mjcf.SITE)
    element.set_attributes(pose_attributes(_pose_in_body(assembly, frame.link, frame.pose)))
    element.set_attributes(marker_attributes(ctx, frame, frame.marker))
    group, user = ctx.use_attribute(frame, mjcf.GROUP, 0), ctx.use_attribute(frame, mjcf.USER)
    material = ctx.use_attribute(frame, mjcf.MATERIAL, "")
    look = ctx.materials.material_color(material)
    if material and look is None:
        ctx.report_dropped(frame, f"its material {material!r}", "no shape has it")
    color = frame.color
    element.set_attributes(
        {
            "material": None if look is None else material,
            "rgba": None if color is None or color in (_DEFAULT_SITE_COLOR, look) else format_numbers(color),
            "group": str(group) if group else None,
            "user": None if user is None else trimmed_text(user),
            "class": ctx.use_attribute(frame, mjcf.CLASS, "") or None,
        }
    )
    return element


# -------------------------------------------------------------------------------------------------------------- cameras


def _camera_element(ctx: MjcfContext, assembly: Assembly, camera: Camera) -> Element:
    """Element of a camera; uses lens parameters if they agree with the field of view, else `fovy`."""
    settings, is_own = camera.settings, assembly.format == mjcf.FORMAT or mjcf.IPD in camera.settings
    element = Element(mjcf.CAMERA)
    element.set_attributes(pose_attributes(_pose_in_body(assembly, camera.link, camera.pose)))
    element.set_attributes(_tracking_attributes(ctx, assembly, settings))
    orthographic = ctx.use_setting(settings, mjcf.PROJECTION) == mjcf.ORTHOGRAPHIC
    size = ctx.use_setting(settings, mjcf.SENSORSIZE)
    lens: Sequence[float] = ctx.use_setting(settings, mjcf.INTRINSIC) or (0.0, 0.0, 0.0, 0.0)
    height = ctx.use_setting(settings, mjcf.HEIGHT, 0.0)
    if size and _lens_matches_fov(camera, size, lens):
        element.set_attributes({"sensorsize": format_numbers(size), "focal": format_numbers(lens[:2])})
        element.set_attributes({"principal": format_numbers(lens[2:4]) if any(lens[2:4]) else None})
    elif orthographic:
        element.set_attributes({mjcf.PROJECTION: mjcf.ORTHOGRAPHIC, "fovy": format_number(height)})
    elif 0 < camera.vertical_fov < math.pi:
        fov = degrees_text(camera.vertical_fov)
        element.set_attributes({"fovy": None if fov == "45" else fov})
    else:
        ctx.report_dropped(camera, "its field of view", "it is no angle between 0 and 180 degrees")
    output = ctx.use_setting(settings, mjcf.OUTPUT, 1)
    user = ctx.use_setting(settings, mjcf.USER)
    spread = ctx.use_setting(settings, mjcf.IPD, 0.0 if is_own else 0.068)
    element.set_attributes(
        {
            "resolution": None if camera.resolution is None else format_numbers(camera.resolution),
            "ipd": text_unless_default(spread, 0.068) if spread else "0",
            "output": _camera_output_text(output) if output != 1 else None,
            "user": None if user is None else trimmed_text(user),
        }
    )
    if camera.clip is not None:
        ctx.report_dropped(camera, "how near and far it sees", "MuJoCo has that once, for all cameras")
    if not is_own:
        ctx.use_setting(settings, sdf.HORIZONTAL_FOV)  # it follows from the vertical one and the resolution
        ctx.use_setting(settings, sdf.SENSOR)
    return element


def _lens_matches_fov(camera: Camera, size: Sequence[float], lens: Sequence[float]) -> bool:
    """Whether sensor size and focal length imply the camera's vertical field of view."""
    implied = 2 * math.atan(size[1] / (2 * lens[1])) if lens[1] > 0 else math.nan
    return math.isclose(implied, camera.vertical_fov, rel_tol=1e-4)


def _camera_output_text(bits: int) -> str:
    return " ".join(word for bit, word in enumerate(_CAMERA_OUTPUTS) if bits >> bit & 1)


def _tracking_attributes(ctx: MjcfContext, assembly: Assembly, settings: Mapping[str, Any]) -> dict[str, str | None]:
    """Attributes `mode` and `target` of a camera or light."""
    mode = ctx.use_setting(settings, mjcf.MODE, "")
    target = ctx.use_setting(settings, mjcf.TARGET, "")
    return {
        "mode": mode or None,
        "target": ctx.names.resolve_reference(mjcf.BODY, target, assembly) if target else None,
    }


# --------------------------------------------------------------------------------------------------------------- lights


def _light_element(ctx: MjcfContext, assembly: Assembly, light: Light) -> Element:
    """Element of a light; the description's light shines along its -z axis."""
    settings, is_own = light.settings, assembly.format == mjcf.FORMAT or mjcf.ACTIVE in light.settings
    pose = _pose_in_body(assembly, light.link, light.pose)
    element = Element(mjcf.LIGHT)
    kind = ctx.use_setting(settings, mjcf.TYPE, "") or light.kind
    direction = -pose.rotation[:, 2]
    texture = ctx.use_setting(settings, mjcf.TEXTURE, "")
    element.set_attributes(
        {
            "pos": vector_text(pose.position) if pose.position.any() else None,
            "dir": None if direction_text(direction) == "0 0 -1" else direction_text(direction),
            "type": None if kind == "spot" else kind,
            "diffuse": None if tuple(light.color) == (0.7, 0.7, 0.7) else format_numbers(light.color),
            "castshadow": None if light.casts_shadow else "false",
            "active": None if ctx.use_setting(settings, mjcf.ACTIVE, True) else "false",
            "texture": texture or None,
            **_tracking_attributes(ctx, assembly, settings),
        }
    )
    if not is_own:
        ctx.use_setting(settings, sdf.DIRECTION)  # it is in the pose
        return element
    for name, default in _LIGHT_DEFAULTS.items():
        # the reader leaves out what is zero
        zero = (0.0, 0.0, 0.0) if isinstance(default, tuple) else 0.0
        value = ctx.use_setting(settings, name, zero)
        if value != default:
            element.set_attributes({name: format_numbers(value) if isinstance(value, tuple) else format_number(value)})
    return element
