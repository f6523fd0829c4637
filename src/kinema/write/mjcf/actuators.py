"""Actuators: MuJoCo's shortcuts (`motor`, `position`, `velocity`) where they say the same, `general` elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from kinema.description import Actuator, Assembly, Joint, Transmission
from kinema.words import mjcf

from ..text import Element, number, numbers
from .bodies import part_name
from .extras import plugin_element
from .joint_parts import JointPart
from .joints import unused_range
from .numbers import proper_range, text_or_none, trimmed
from .writing import Writing

_INPUTS = ("pos", "vel", "ff", "voltage", "none", "pressure")
"""MuJoCo's bits of an actuator's inputs."""
_SO3_INPUTS = {1: "expmap", 2: "quat"}
_DEFAULT_INPUT = {"position": 1, "velocity": 2, "motor": 0}


def write_actuators(writing: Writing) -> None:
    """All actuators of the description, in order."""
    for home, actuator in writing.parts("actuators"):
        _actuator(writing, home, actuator)


def _actuator(writing: Writing, home: Assembly, actuator: Actuator) -> None:
    verbatim = plugin_element(writing, actuator)
    element = Element(mjcf.GENERAL) if verbatim is None else verbatim
    entry = writing.names.add(mjcf.ACTUATOR, actuator, home, shown=not actuator.name_is_generated)
    if verbatim is not None:
        for name in list(actuator.settings):
            writing.take_from(actuator.settings, name)
        element.attributes.pop("name", None)
    else:
        target = _target(writing, home, actuator)
        if target is None:
            return
        element.set(target)
        _law(writing, actuator, element)
        _ranges(actuator, element)
        _settings(writing, actuator, element)
    entry.element = element
    writing.section(mjcf.ACTUATOR).children.append(element)


# -- what it acts on --------------------------------------------------------------------------------------------------


def _target(writing: Writing, home: Assembly, actuator: Actuator) -> dict[str, str | None] | None:
    """The attributes that say what it acts on, and with which gear."""
    kind, name = actuator.transmission, actuator.target
    gear: Sequence[float] = actuator.gear
    given: dict[str, str | None] | None = None
    match kind:
        case Transmission.JOINT | Transmission.JOINT_IN_PARENT:
            found = _joint(writing, home, actuator)
            if found is not None:
                part, gear = found
                given = {kind.value: part_name(writing, part)}
        case Transmission.TENDON:
            given = _named("tendon", writing.names.refer(mjcf.TENDON, name, home))
        case Transmission.BODY:
            given = _named("body", writing.names.refer(mjcf.BODY, name, home))
        case Transmission.SITE:
            given = _named("site", writing.names.refer(mjcf.SITE, name, home))
        case Transmission.SLIDER_CRANK:
            slider = writing.names.refer(mjcf.SITE, actuator.reference, home) if actuator.crank_length > 0 else None
            given = _named("cranksite", writing.names.refer(mjcf.SITE, name, home)) if slider else None
            if given is not None:
                given |= {"slidersite": slider, "cranklength": number(actuator.crank_length)}
        case Transmission.ORIENTATION:
            given = _orientation(writing, home, actuator)
    if given is None:
        writing.drop(actuator, "the actuator", f"there is no {kind.value} {name!r} in the file that it could act on")
        return None
    if kind is Transmission.SITE and actuator.reference:
        given |= {"refsite": writing.names.refer(mjcf.SITE, actuator.reference, home)}
    return given | {"gear": None if tuple(gear) == (1.0, 0.0, 0.0, 0.0, 0.0, 0.0) else trimmed(gear)}


def _named(attribute: str, name: str | None) -> dict[str, str | None] | None:
    return None if name is None else {attribute: name}


def _joint(writing: Writing, home: Assembly, actuator: Actuator) -> tuple[JointPart, Sequence[float]] | None:
    """The joint of MuJoCo's to act on; of one that became several, the one that the gear picks."""
    entry = writing.names.find(mjcf.JOINT, actuator.target, home)
    parts = [] if entry is None else writing.parts_of.get(id(entry.node), [])
    if len(parts) == 1:
        return parts[0], actuator.gear
    picked = [i for i, g in enumerate(actuator.gear) if g]
    simple = {p.number: p for p in parts if p.kind in ("hinge", "slide") and p.travel is None}
    if len(picked) == 1 and picked[0] in simple:
        return simple[picked[0]], (actuator.gear[picked[0]], 0.0, 0.0, 0.0, 0.0, 0.0)
    return None


def _orientation(writing: Writing, home: Assembly, actuator: Actuator) -> dict[str, str | None] | None:
    if actuator.reference:
        site = writing.names.refer(mjcf.SITE, actuator.target, home)
        if site is None:
            return None
        return {"site": site, "refsite": writing.names.refer(mjcf.SITE, actuator.reference, home)}
    entry = writing.names.find(mjcf.JOINT, actuator.target, home)
    parts = [] if entry is None or not isinstance(entry.node, Joint) else writing.parts_of.get(id(entry.node), [])
    return {"joint": part_name(writing, parts[0])} if len(parts) == 1 and parts[0].kind == "ball" else None


# -- force ------------------------------------------------------------------------------------------------------------


def _law(writing: Writing, actuator: Actuator, element: Element) -> None:
    """Dynamics, gain and bias, by the shortest name that says all of it."""
    given = writing.take_from(actuator.settings, mjcf.INPUT, None)
    called = writing.take_from(actuator.settings, mjcf.SHORTCUT, "")
    # MuJoCo remembers whether a servo was called one
    if called == "general" or not _shortcut(actuator, element, given):
        element.set(
            {
                "dyntype": None if actuator.dynamics_type == "none" else actuator.dynamics_type,
                "gaintype": None if actuator.gain_type == "fixed" else actuator.gain_type,
                "biastype": None if actuator.bias_type == "none" else actuator.bias_type,
                "dynprm": None if _is_one(actuator.dynamics) else trimmed(actuator.dynamics),
                "gainprm": None if _is_one(actuator.gain) else trimmed(actuator.gain),
                "biasprm": trimmed(actuator.bias) if any(actuator.bias) else None,
                "input": _input_text(actuator, given or 0),
            }
        )
    _more_ranges(writing, actuator, element, given or 0)
    writing.take_from(actuator.settings, mjcf.N_CONTROLS)


def _is_one(values: Sequence[float]) -> bool:
    """Whether parameters are MuJoCo's default, a one and zeros; no values are the default too."""
    return not values or (values[0] == 1.0 and not any(values[1:]))


def _shortcut(actuator: Actuator, element: Element, given: int | None) -> bool:
    """Make the element a motor, position or velocity servo; False where it is none of them."""
    gain, bias = (tuple(v) + (0.0,) * 10 for v in (actuator.gain, actuator.bias))
    filtered = actuator.dynamics_type in ("filter", "filterexact") and not any(actuator.dynamics[1:])
    if actuator.gain_type != "fixed" or any(gain[1:]) or actuator.transmission is Transmission.BODY:
        return False
    plain = actuator.dynamics_type == "none" and _is_one(actuator.dynamics)
    if actuator.bias_type == "none" and gain[0] == 1.0 and plain and not given:
        element.tag = "motor"
        return True
    if actuator.bias_type != "affine" or bias[0] or any(bias[3:]) or bias[2] > 0:
        return False
    if bias[1] == 0.0 and bias[2] == -gain[0] and plain and given in (None, 2):
        element.tag = "velocity"
        element.set({"kv": number(gain[0])})
        return True
    exact = actuator.dynamics_type == "filterexact" and filtered and actuator.dynamics[0] > 0
    if bias[1] == -gain[0] and (plain or exact) and given in (None, 1):
        element.tag = "position"
        element.set({"kp": number(gain[0]), "kv": text_or_none(-bias[2])})
        element.set({"timeconst": number(actuator.dynamics[0]) if exact else None})
        return True
    return False


def _more_ranges(writing: Writing, actuator: Actuator, element: Element, given: int) -> None:
    """The ranges of further controls, by what each of them is; the first has the actuator's own."""
    inputs = [word for bit, word in enumerate(_INPUTS) if given >> bit & 1]
    ranges = writing.take_from(actuator.settings, mjcf.CONTROL_RANGES, ())
    for word, bounds in list(zip(inputs, ranges, strict=False))[1:]:
        limits = proper_range(*bounds)
        if limits is not None and word in ("vel", "ff"):
            element.set({f"{word}range": numbers(limits)})


def _input_text(actuator: Actuator, given: int) -> str | None:
    if not given:
        return None
    if actuator.gain_type == "so3":
        return _SO3_INPUTS.get(given)
    return " ".join(word for bit, word in enumerate(_INPUTS) if given >> bit & 1)


def _ranges(actuator: Actuator, element: Element) -> None:
    for attribute, bounds in (
        ("ctrlrange", actuator.control_range),
        ("forcerange", actuator.force_range),
        ("actrange", actuator.activation_range),
    ):
        limits = proper_range(*bounds)
        element.set({attribute: None if limits is None else numbers(limits)})
    if any(actuator.length_range):
        element.set({"lengthrange": numbers(actuator.length_range)})


def _settings(writing: Writing, actuator: Actuator, element: Element) -> None:
    """Everything else that MuJoCo has."""

    def take(name: str, default: object = None) -> object:
        return writing.take_from(actuator.settings, name, default)

    user, group, higher = take(mjcf.USER), take(mjcf.GROUP, 0), take(mjcf.DAMPINGPOLY)
    dimension = take(mjcf.N_ACTIVATIONS, 0)
    takes_states = actuator.dynamics_type in ("user", "dcmotor", "pid")
    damping = float(take(mjcf.DAMPING, 0.0))  # type: ignore[arg-type]
    element.set(
        {
            "actdim": str(dimension) if dimension and takes_states and element.tag == mjcf.GENERAL else None,
            "actearly": "true" if take(mjcf.ACTEARLY) else None,
            "group": str(group) if group else None,
            "damping": f"{number(damping)} {trimmed(higher)}" if higher else text_or_none(damping),  # type: ignore[arg-type]
            "armature": text_or_none(float(take(mjcf.ARMATURE, 0.0))),  # type: ignore[arg-type]
            **delay_attributes(take(mjcf.DELAY, 0.0), take(mjcf.HISTORY)),
            "user": None if user is None else trimmed(user),  # type: ignore[arg-type]
        }
    )
    element.set(unused_range(take(mjcf.UNUSED_RANGE), element, "ctrl"))  # type: ignore[arg-type]
    take(mjcf.PLUGIN)


_INTERPOLATION = ("zoh", "linear", "cubic")


def delay_attributes(delay: object, history: object) -> dict[str, str | None]:
    """`delay`, `nsample` and `interp` of an actuator or sensor."""
    samples, order = history or (0, 0)  # type: ignore[misc]  # ty: ignore[not-iterable]
    return {
        "delay": text_or_none(float(delay)),  # type: ignore[arg-type]
        "nsample": str(samples) if samples else None,
        "interp": _INTERPOLATION[order] if samples and 0 < order < len(_INTERPOLATION) else None,
    }
