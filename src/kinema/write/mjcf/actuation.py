"""Tendons, actuators, and joint drives as position, velocity or general actuators."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kinema.core import Pose
from kinema.description import (
    Actuator,
    Assembly,
    Axis,
    AxisMotion,
    Drive,
    DriveType,
    Joint,
    JointKind,
    Robot,
    Tendon,
    TendonPathItem,
    TendonPathKind,
    Transmission,
)
from kinema.tokens import mjcf

from ..xml_document import Element, format_number, format_numbers
from .attributes import text_unless_default, trimmed_text, valid_range
from .bodies import iterate_bodies, joint_name
from .context import MjcfBody, MjcfContext
from .extras import first_plugin_element
from .joint_decomposition import MjcfJoint
from .joints import solver_attributes, unused_range_attributes

# -------------------------------------------------------------------------------------------------------------- tendons

_DEFAULT_TENDON_COLOR = (0.5, 0.5, 0.5, 1.0)


def find_mjcf_joint(ctx: MjcfContext, name: str, assembly: Assembly, axis_index: int = 0) -> MjcfJoint | None:
    """MuJoCo joint of one axis of a joint of the description; None if there is none."""
    entry = ctx.names.find(mjcf.JOINT, name, assembly)
    parts = [] if entry is None else ctx.joints_by_source.get(id(entry.node), [])
    simple = [p for p in parts if p.travel_per_radian is None]
    return next((p for p in simple if p.coordinate_index == axis_index), simple[0] if len(simple) == 1 else None)


def write_tendons(ctx: MjcfContext) -> None:
    """Write all tendons, in the order of the description."""
    for home, tendon in ctx.ordered_items("tendons"):
        _write_tendon(ctx, home, tendon)


def _write_tendon(ctx: MjcfContext, assembly: Assembly, tendon: Tendon) -> None:
    """Write a fixed or spatial tendon with its path; reports the tendon as dropped if its path is invalid."""
    path = [_path_element(ctx, assembly, tendon, item) for item in tendon.path]
    kept = [element for element in path if element is not None]
    sites = sum(1 for element in kept if element.tag == mjcf.SITE)
    if len(kept) < len(path) or not kept or (not tendon.is_fixed and sites < 2):
        if len(kept) == len(path):
            ctx.report_dropped(tendon, "the tendon", "its path is no path that MuJoCo takes")
        return
    element = Element("fixed" if tendon.is_fixed else "spatial")
    entry = ctx.names.register(mjcf.TENDON, tendon, assembly, always_named=not tendon.name_is_generated)
    entry.element = element
    bounds = valid_range(tendon.lower, tendon.upper)
    force = valid_range(*tendon.force_range)
    element.set_attributes(
        {
            "range": None if bounds is None else format_numbers(bounds),
            "actuatorfrcrange": None if force is None else format_numbers(force),
            "stiffness": _polynomial_text(ctx, tendon, tendon.stiffness, mjcf.STIFFNESSPOLY),
            "damping": _polynomial_text(ctx, tendon, tendon.damping, mjcf.DAMPINGPOLY),
            "springlength": _spring_length_text(tendon),
            "frictionloss": text_unless_default(tendon.friction),
            "armature": _armature_text(ctx, tendon),
            "springyield": text_unless_default(ctx.use_attribute(tendon, mjcf.SPRINGYIELD, 0.0)),
            **solver_attributes(tendon.limit_solver, "limit", with_margin=True),
            **solver_attributes(tendon.friction_solver, "friction"),
        }
    )
    element.set_attributes(unused_range_attributes(ctx.use_attribute(tendon, mjcf.UNUSED_RANGE), element))
    _set_appearance(ctx, tendon, element)
    element.children += kept
    ctx.section(mjcf.TENDON).children.append(element)


def _path_element(ctx: MjcfContext, assembly: Assembly, tendon: Tendon, item: TendonPathItem) -> Element | None:
    """Element of one item of a tendon path (joint, site, pulley or wrapping geom); None, with a report, if invalid."""
    match item.kind:
        case TendonPathKind.PULLEY if not item.coefficient > 0:
            ctx.report_dropped(tendon, "the tendon", "the divisor of its pulley is not positive")
            return None
        case TendonPathKind.PULLEY:
            return Element("pulley", {"divisor": format_number(item.coefficient)})
        case TendonPathKind.JOINT:
            part = find_mjcf_joint(ctx, item.target, assembly)
            if part is None or part.kind not in ("hinge", "slide"):
                ctx.report_dropped(tendon, "the tendon", f"MuJoCo cannot count the joint {item.target!r} into a length")
                return None
            return Element(mjcf.JOINT, {"joint": joint_name(ctx, part), "coef": format_number(item.coefficient)})
        case TendonPathKind.SITE:
            site = ctx.names.resolve_reference(mjcf.SITE, item.target, assembly)
            if site is None:
                ctx.report_dropped(tendon, "the tendon", f"there is no frame {item.target!r} to pass through")
                return None
            return Element(mjcf.SITE, {"site": site})
    geom = _geom_name(ctx, item.target, assembly)
    if geom is None:
        ctx.report_dropped(tendon, "the tendon", f"there is no shape {item.target!r} to wrap around")
        return None
    element = Element(mjcf.GEOM, {"geom": geom})
    element.set_attributes(
        {"sidesite": ctx.names.resolve_reference(mjcf.SITE, item.side, assembly) if item.side else None}
    )
    return element


def _geom_name(ctx: MjcfContext, name: str, assembly: Assembly) -> str | None:
    entry = ctx.names.find(mjcf.GEOM, name, assembly)
    return None if entry is None or entry.element is None else ctx.names.resolve_reference(mjcf.GEOM, name, assembly)


def _polynomial_text(ctx: MjcfContext, tendon: Tendon, linear_coefficient: float, name: str) -> str | None:
    higher = ctx.use_attribute(tendon, name)
    return (
        f"{format_number(linear_coefficient)} {trimmed_text(higher)}"
        if higher
        else text_unless_default(linear_coefficient)
    )


def _armature_text(ctx: MjcfContext, tendon: Tendon) -> str | None:
    if tendon.armature and any(item.kind is TendonPathKind.WRAP for item in tendon.path):
        ctx.report_dropped(tendon, "its armature", "MuJoCo has none for tendons that wrap around shapes")
        return None
    return text_unless_default(tendon.armature)


def _spring_length_text(tendon: Tendon) -> str | None:
    if tendon.spring_length is None:
        return None
    low, high = tendon.spring_length
    return format_number(low) if low == high else format_numbers((low, high))


def _set_appearance(ctx: MjcfContext, tendon: Tendon, element: Element) -> None:
    """Set width, colour, material, group and user data; fixed tendons get width and colour from a default class."""
    group, user = ctx.use_attribute(tendon, mjcf.GROUP, 0), ctx.use_attribute(tendon, mjcf.USER)
    material = ctx.use_attribute(tendon, mjcf.MATERIAL, "")
    look = ctx.materials.material_color(material)
    if material and look is None:
        ctx.report_dropped(tendon, f"its material {material!r}", "no shape has it")
    element.set_attributes(
        {"group": str(group) if group else None, "user": None if user is None else trimmed_text(user)}
    )
    width = text_unless_default(tendon.width, 0.003) if tendon.width > 0 else None
    color = None if tendon.color in (_DEFAULT_TENDON_COLOR, look) else format_numbers(tendon.color)
    if tendon.is_fixed:  # which has a look by its class alone
        element.set_attributes({"class": _appearance_class(ctx, {"width": width, "rgba": color})})
    else:
        element.set_attributes({"width": width, "material": None if look is None else material, "rgba": color})


def _appearance_class(ctx: MjcfContext, attributes: dict[str, str | None]) -> str | None:
    """Name of the default class with the given tendon attributes, created on first use; None without attributes."""
    said = tuple((name, value) for name, value in attributes.items() if value is not None)
    if not said:
        return None
    if said not in ctx.tendon_classes:
        ctx.tendon_classes[said] = f"tendon{len(ctx.tendon_classes) + 1}"
    return ctx.tendon_classes[said]


def add_distance_tendon(ctx: MjcfContext, name: str, sites: tuple[str, str], bounds: tuple[float, float] | None) -> str:
    """Add a straight spatial tendon between two sites, with a length range if given, and return its name."""
    own = ctx.names.new_name(mjcf.TENDON, name)
    element = ctx.section(mjcf.TENDON).add_child("spatial", name=own)
    limits = None if bounds is None else valid_range(max(bounds[0], 0.0), bounds[1])
    if limits is not None and (limits[0] > 0 or math.isfinite(limits[1])):
        element.set_attributes({"range": format_numbers(limits)})
    for site in sites:
        element.add_child(mjcf.SITE, site=site)
    return own


# ------------------------------------------------------------------------------------------------------------ actuators

_INPUT_NAMES = ("pos", "vel", "ff", "voltage", "none", "pressure")
"""Names of the bits of MuJoCo's actuator inputs."""
_SO3_INPUTS = {1: "expmap", 2: "quat"}


def write_actuators(ctx: MjcfContext) -> None:
    """Write all actuators, in the order of the description."""
    for home, actuator in ctx.ordered_items("actuators"):
        _write_actuator(ctx, home, actuator)


def _write_actuator(ctx: MjcfContext, assembly: Assembly, actuator: Actuator) -> None:
    """Write one actuator, or its preserved plugin element; reports an actuator without a target as dropped."""
    verbatim = first_plugin_element(ctx, actuator)
    element = Element(mjcf.GENERAL) if verbatim is None else verbatim
    entry = ctx.names.register(mjcf.ACTUATOR, actuator, assembly, always_named=not actuator.name_is_generated)
    if verbatim is not None:
        for name in list(actuator.settings):
            ctx.use_setting(actuator.settings, name)
        element.attributes.pop("name", None)
    else:
        target = _transmission_attributes(ctx, assembly, actuator)
        if target is None:
            return
        element.set_attributes(target)
        _set_gain_bias_dynamics(ctx, actuator, element)
        _set_ranges(actuator, element)
        _set_mujoco_attributes(ctx, actuator, element)
    entry.element = element
    ctx.section(mjcf.ACTUATOR).children.append(element)


# ------------------------------------------------------------------------------------------------- transmission targets


def _transmission_attributes(ctx: MjcfContext, assembly: Assembly, actuator: Actuator) -> dict[str, str | None] | None:
    """Attributes of an actuator's transmission target and gear; None, with a report, if the target is missing."""
    kind, name = actuator.transmission, actuator.target
    gear: Sequence[float] = actuator.gear
    given: dict[str, str | None] | None = None
    match kind:
        case Transmission.JOINT | Transmission.JOINT_IN_PARENT:
            found = _actuated_joint(ctx, assembly, actuator)
            if found is not None:
                part, gear = found
                given = {kind.value: joint_name(ctx, part)}
        case Transmission.TENDON:
            given = _attribute_or_none("tendon", ctx.names.resolve_reference(mjcf.TENDON, name, assembly))
        case Transmission.BODY:
            given = _attribute_or_none("body", ctx.names.resolve_reference(mjcf.BODY, name, assembly))
        case Transmission.SITE:
            given = _attribute_or_none("site", ctx.names.resolve_reference(mjcf.SITE, name, assembly))
        case Transmission.SLIDER_CRANK:
            slider = (
                ctx.names.resolve_reference(mjcf.SITE, actuator.reference, assembly)
                if actuator.crank_length > 0
                else None
            )
            given = (
                _attribute_or_none("cranksite", ctx.names.resolve_reference(mjcf.SITE, name, assembly))
                if slider
                else None
            )
            if given is not None:
                given |= {"slidersite": slider, "cranklength": format_number(actuator.crank_length)}
        case Transmission.ORIENTATION:
            given = _orientation_attributes(ctx, assembly, actuator)
    if given is None:
        ctx.report_dropped(
            actuator, "the actuator", f"there is no {kind.value} {name!r} in the file that it could act on"
        )
        return None
    if kind is Transmission.SITE and actuator.reference:
        given |= {"refsite": ctx.names.resolve_reference(mjcf.SITE, actuator.reference, assembly)}
    return given | {"gear": None if tuple(gear) == (1.0, 0.0, 0.0, 0.0, 0.0, 0.0) else trimmed_text(gear)}


def _attribute_or_none(attribute: str, name: str | None) -> dict[str, str | None] | None:
    return None if name is None else {attribute: name}


def _actuated_joint(
    ctx: MjcfContext, assembly: Assembly, actuator: Actuator
) -> tuple[MjcfJoint, Sequence[float]] | None:
    """MuJoCo joint and gear (6) of an actuator; for a decomposed joint, the component with nonzero gear, else None."""
    entry = ctx.names.find(mjcf.JOINT, actuator.target, assembly)
    parts = [] if entry is None else ctx.joints_by_source.get(id(entry.node), [])
    if len(parts) == 1:
        return parts[0], actuator.gear
    picked = [i for i, g in enumerate(actuator.gear) if g]
    simple = {p.coordinate_index: p for p in parts if p.kind in ("hinge", "slide") and p.travel_per_radian is None}
    if len(picked) == 1 and picked[0] in simple:
        return simple[picked[0]], (actuator.gear[picked[0]], 0.0, 0.0, 0.0, 0.0, 0.0)
    return None


def _orientation_attributes(ctx: MjcfContext, assembly: Assembly, actuator: Actuator) -> dict[str, str | None] | None:
    """Attributes of an orientation servo: site and reference site, or a ball joint; None if missing."""
    if actuator.reference:
        site = ctx.names.resolve_reference(mjcf.SITE, actuator.target, assembly)
        if site is None:
            return None
        return {"site": site, "refsite": ctx.names.resolve_reference(mjcf.SITE, actuator.reference, assembly)}
    entry = ctx.names.find(mjcf.JOINT, actuator.target, assembly)
    parts = [] if entry is None or not isinstance(entry.node, Joint) else ctx.joints_by_source.get(id(entry.node), [])
    return {"joint": joint_name(ctx, parts[0])} if len(parts) == 1 and parts[0].kind == "ball" else None


# ------------------------------------------------------------------------------------------------ gain, bias and limits


def _set_gain_bias_dynamics(ctx: MjcfContext, actuator: Actuator, element: Element) -> None:
    """Set gain, bias and dynamics attributes, as a shortcut (motor, position, velocity) if equivalent."""
    given = ctx.use_setting(actuator.settings, mjcf.INPUT, None)
    called = ctx.use_setting(actuator.settings, mjcf.SHORTCUT, "")
    # MuJoCo remembers whether a servo was called one
    if called == "general" or not _try_shortcut(actuator, element, given):
        element.set_attributes(
            {
                "dyntype": None if actuator.dynamics_type == "none" else actuator.dynamics_type,
                "gaintype": None if actuator.gain_type == "fixed" else actuator.gain_type,
                "biastype": None if actuator.bias_type == "none" else actuator.bias_type,
                "dynprm": None if _is_default_parameters(actuator.dynamics) else trimmed_text(actuator.dynamics),
                "gainprm": None if _is_default_parameters(actuator.gain) else trimmed_text(actuator.gain),
                "biasprm": trimmed_text(actuator.bias) if any(actuator.bias) else None,
                "input": _input_text(actuator, given or 0),
            }
        )
    _set_input_ranges(ctx, actuator, element, given or 0)
    ctx.use_setting(actuator.settings, mjcf.N_CONTROLS)


def _is_default_parameters(values: Sequence[float]) -> bool:
    """Whether parameters equal MuJoCo's default (1, 0, 0, ...); an empty sequence counts as the default."""
    return not values or (values[0] == 1.0 and not any(values[1:]))


def _try_shortcut(actuator: Actuator, element: Element, input_bits: int | None) -> bool:
    """Turn the element into an equivalent motor, position or velocity servo; False if there is none."""
    gain, bias = (tuple(v) + (0.0,) * 10 for v in (actuator.gain, actuator.bias))
    filtered = actuator.dynamics_type in ("filter", "filterexact") and not any(actuator.dynamics[1:])
    if actuator.gain_type != "fixed" or any(gain[1:]) or actuator.transmission is Transmission.BODY:
        return False
    plain = actuator.dynamics_type == "none" and _is_default_parameters(actuator.dynamics)
    if actuator.bias_type == "none" and gain[0] == 1.0 and plain and not input_bits:
        element.tag = "motor"
        return True
    if actuator.bias_type != "affine" or bias[0] or any(bias[3:]) or bias[2] > 0:
        return False
    if bias[1] == 0.0 and bias[2] == -gain[0] and plain and input_bits in (None, 2):
        element.tag = "velocity"
        element.set_attributes({"kv": format_number(gain[0])})
        return True
    exact = actuator.dynamics_type == "filterexact" and filtered and actuator.dynamics[0] > 0
    if bias[1] == -gain[0] and (plain or exact) and input_bits in (None, 1):
        element.tag = "position"
        element.set_attributes({"kp": format_number(gain[0]), "kv": text_unless_default(-bias[2])})
        element.set_attributes({"timeconst": format_number(actuator.dynamics[0]) if exact else None})
        return True
    return False


def _set_input_ranges(ctx: MjcfContext, actuator: Actuator, element: Element, input_bits: int) -> None:
    """Set the ranges of the additional controls (velocity, feed-forward) of an actuator with several inputs."""
    inputs = [word for bit, word in enumerate(_INPUT_NAMES) if input_bits >> bit & 1]
    ranges = ctx.use_setting(actuator.settings, mjcf.CONTROL_RANGES, ())
    for word, bounds in list(zip(inputs, ranges, strict=False))[1:]:
        limits = valid_range(*bounds)
        if limits is not None and word in ("vel", "ff"):
            element.set_attributes({f"{word}range": format_numbers(limits)})


def _input_text(actuator: Actuator, input_bits: int) -> str | None:
    if not input_bits:
        return None
    if actuator.gain_type == "so3":
        return _SO3_INPUTS.get(input_bits)
    return " ".join(word for bit, word in enumerate(_INPUT_NAMES) if input_bits >> bit & 1)


def _set_ranges(actuator: Actuator, element: Element) -> None:
    """Set the control, force, activation and length ranges."""
    for attribute, bounds in (
        ("ctrlrange", actuator.control_range),
        ("forcerange", actuator.force_range),
        ("actrange", actuator.activation_range),
    ):
        limits = valid_range(*bounds)
        element.set_attributes({attribute: None if limits is None else format_numbers(limits)})
    if any(actuator.length_range):
        element.set_attributes({"lengthrange": format_numbers(actuator.length_range)})


def _set_mujoco_attributes(ctx: MjcfContext, actuator: Actuator, element: Element) -> None:
    """Set attributes that only MuJoCo has: activations, group, damping, armature, delay, user data."""

    def take(name: str, default: object = None) -> object:
        return ctx.use_setting(actuator.settings, name, default)

    user, group, higher = take(mjcf.USER), take(mjcf.GROUP, 0), take(mjcf.DAMPINGPOLY)
    dimension = take(mjcf.N_ACTIVATIONS, 0)
    takes_states = actuator.dynamics_type in ("user", "dcmotor", "pid")
    damping = float(take(mjcf.DAMPING, 0.0))  # type: ignore[arg-type]
    element.set_attributes(
        {
            "actdim": str(dimension) if dimension and takes_states and element.tag == mjcf.GENERAL else None,
            "actearly": "true" if take(mjcf.ACTEARLY) else None,
            "group": str(group) if group else None,
            "damping": f"{format_number(damping)} {trimmed_text(higher)}" if higher else text_unless_default(damping),  # type: ignore[arg-type]
            "armature": text_unless_default(float(take(mjcf.ARMATURE, 0.0))),  # type: ignore[arg-type]
            **delay_attributes(take(mjcf.DELAY, 0.0), take(mjcf.HISTORY)),
            "user": None if user is None else trimmed_text(user),  # type: ignore[arg-type]
        }
    )
    element.set_attributes(unused_range_attributes(take(mjcf.UNUSED_RANGE), element, "ctrl"))  # type: ignore[arg-type]
    take(mjcf.PLUGIN)


_INTERPOLATION = ("zoh", "linear", "cubic")


def delay_attributes(delay: object, history: object) -> dict[str, str | None]:
    """Attributes `delay`, `nsample` and `interp` of an actuator or sensor."""
    samples, order = history or (0, 0)  # type: ignore[misc]  # ty: ignore[not-iterable]
    return {
        "delay": text_unless_default(float(delay)),  # type: ignore[arg-type]
        "nsample": str(samples) if samples else None,
        "interp": _INTERPOLATION[order] if samples and 0 < order < len(_INTERPOLATION) else None,
    }


# -------------------------------------------------------------------------------------------- joint drives as actuators


def write_drives(ctx: MjcfContext) -> dict[str, float]:
    """Write an actuator for every joint drive.

    Returns:
        Nonzero controls that realize the drive targets, by actuator name.
    """
    targets: dict[str, float] = {}
    for robot in ctx.robots:
        for joint in robot.joints:
            for number_of_axis, axis in enumerate(joint.moving_axes):
                if axis.drive is not None:
                    targets |= _write_drive(ctx, robot, joint, number_of_axis, axis.drive)
            if any(a.drive is not None for a in joint.axes if a.locked):
                ctx.report_dropped(joint, "the drive of a locked axis", "the axis does not move")
    return targets


def _write_drive(ctx: MjcfContext, robot: Robot, joint: Joint, axis_index: int, drive: Drive) -> dict[str, float]:
    """Write the actuator of one joint drive; gains of acceleration drives are multiplied by the subtree inertia.

    Returns:
        The control that realizes the drive targets, by actuator name; empty if it is zero.
    """
    axis = joint.moving_axes[axis_index]
    found = _driven_joint(ctx, joint, axis_index)
    if found is None:
        ctx.report_dropped(joint, "the drive", "it is not written as a joint that an actuator could move")
        return {}
    part, gear = found
    if part.kind == "ball":
        how = "the drives of its axes act on the components of the whole rotation"
        ctx.report_approximated(joint, "its drives", how)
    scale = 1.0
    if drive.type is DriveType.ACCELERATION:
        scale = _subtree_inertia(ctx, part, axis)
        what = "kg m2" if axis.motion is AxisMotion.ROTATION else "kg"
        how = f"MuJoCo's gains give forces; they are written for the {scale:.6g} {what} that the joint carries at rest"
        ctx.report_approximated(joint, "a drive that gives accelerations", how)
    stiffness, damping = scale * drive.stiffness, scale * drive.damping
    name = ctx.names.new_name(mjcf.ACTUATOR, joint_name(ctx, part) + gear[1], robot)
    element = ctx.section(mjcf.ACTUATOR).add_child(
        _actuator_tag(stiffness, damping), name=name, joint=joint_name(ctx, part)
    )
    element.set_attributes({"gear": gear[0]})
    control = _set_drive_gains(element, drive, stiffness, damping)
    if math.isfinite(drive.max_force):
        element.set_attributes({"forcerange": f"{format_number(-drive.max_force)} {format_number(drive.max_force)}"})
    return {name: control} if control else {}


def _driven_joint(ctx: MjcfContext, joint: Joint, axis_index: int) -> tuple[MjcfJoint, tuple[str | None, str]] | None:
    """MuJoCo joint of a driven axis, gear text (balls only) and suffix of the actuator name; None if missing."""
    for part in ctx.joints_by_source.get(id(joint), []):
        if part.travel_per_radian is not None or part.kind == "free":
            continue
        if part.kind == "ball" and joint.kind is JointKind.SPHERICAL:
            direction = part.frame.rotation[:, axis_index] * (-1.0 if part.inverted else 1.0)
            return part, (format_numbers(direction.tolist()), f"_{'xyz'[axis_index]}")
        if part.coordinate_index == axis_index and part.kind in ("hinge", "slide"):
            return part, (None, "")
    return None


def _actuator_tag(stiffness: float, damping: float) -> str:
    if stiffness > 0 and damping >= 0:
        return "position"
    return "velocity" if stiffness == 0 and damping > 0 else "general"


def _set_drive_gains(element: Element, drive: Drive, stiffness: float, damping: float) -> float:
    """Set gain and bias of a drive with the given stiffness and damping; returns the control of the drive targets."""
    if element.tag == "position":
        element.set_attributes({"kp": format_number(stiffness), "kv": format_number(damping) if damping else None})
        return drive.target_position + drive.target_velocity * damping / stiffness
    if element.tag == "velocity":
        element.set_attributes({"kv": format_number(damping)})
        return drive.target_velocity
    element.set_attributes({"biastype": "affine", "gainprm": format_number(stiffness or damping)})
    element.set_attributes({"biasprm": format_numbers([0.0, -stiffness, -damping])})
    if stiffness:
        return drive.target_position + drive.target_velocity * damping / stiffness
    return drive.target_velocity if damping else 0.0


# -------------------------------------------------------------------------- joint-space inertia for acceleration drives


def _subtree_inertia(ctx: MjcfContext, mjcf_joint: MjcfJoint, axis: Axis) -> float:
    """Mass [kg] or moment of inertia [kg m2] of a joint's subtree along its axis, at the reference configuration.

    Includes the armature; 1 if there is no mass.
    """
    body = next(b for b in iterate_bodies(ctx) if mjcf_joint in b.joints)
    total = axis.armature
    assert mjcf_joint.direction is not None or mjcf_joint.kind == "ball"  # hinges and slides have one
    direction = mjcf_joint.direction if mjcf_joint.direction is not None else mjcf_joint.frame.rotation[:, 0]
    for piece, pose in _subtree_poses(body):
        inertial = piece.link.inertial if piece.link is not None else None
        if inertial is None:
            continue
        if axis.motion is AxisMotion.TRANSLATION:
            total += inertial.mass
            continue
        turned = pose.rotation @ inertial.inertia @ pose.rotation.T
        lever = np.cross(direction, pose.apply(inertial.center) - mjcf_joint.frame.position)
        total += float(direction @ turned @ direction + inertial.mass * lever @ lever)
    return total if total > 0 else 1.0


def _subtree_poses(body: MjcfBody) -> list[tuple[MjcfBody, Pose]]:
    """Bodies of a subtree with their poses in the frame of its root body."""
    result: list[tuple[MjcfBody, Pose]] = []
    stack = [(body, Pose())]
    while stack:
        current, pose = stack.pop()
        result.append((current, pose))
        stack += [(child, pose @ child.pose) for child in current.children]
    return result
