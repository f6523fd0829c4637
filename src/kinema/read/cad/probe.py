"""What was measured in the CAD program when a joint was driven, against what the joint is understood to do."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np

from kinema.description import AxisMotion
from kinema.foundation import Array, Diagnostics, Pose

from .elements import JointElement, ProbeElement
from .motions import JointModel
from .schema import FORMAT

TOLERANCE = 1e-5
"""Metres, and radians, that a measured pose may be off."""
_NOISE = 1e-9
"""Metres, and radians, by which one of several possible axes must fit better to be preferred."""
_APART = 1e-6
"""Metres that the CAD program's own frames may be apart."""


def check_probes(element: JointElement, model: JointModel, one: Pose, two: Pose, diagnostics: Diagnostics) -> None:
    """Settle where the joint's axis lies if the file leaves it open, then report every measurement that disagrees.

    Args:
        element: the joint and its measurements.
        model: how it moves; its first origin becomes the one that fits.
        one: where occurrence one stands in the snapshot.
        two: where occurrence two stands.
        diagnostics: where to report.
    """
    moved = [p for p in element.probes if _has_moved(p, one, two)]
    for probe in element.probes:
        if probe not in moved and _amount(model, probe) > TOLERANCE:
            message = f'joint "{element.name}" did not move when it was driven, so that it could not be checked'
            hint = "it may be held by other joints, grounded parts or contact sets"
            diagnostics.warning(f"{FORMAT}.probe-stuck", message, hint=hint, origin=probe.place)
            break
    if moved and _settle(element, model, moved, one, two, diagnostics):
        return
    if model.disagreement() > _APART and not moved:
        message = (
            f'joint "{element.name}" ({element.type}): its frames on the two occurrences are '
            f"{model.disagreement():.3g} m apart across its axis"
        )
        hint = "export with the check of the joints, which settles where the axis is"
        diagnostics.warning(f"{FORMAT}.frames-apart", message, hint=hint, origin=element.place)
    for probe in moved:
        metres, radians = _error(model, model.origins[0], probe, one, two)
        if max(metres, radians) > TOLERANCE:
            _report(element, model, probe, one, two, diagnostics)
            break


def _settle(
    element: JointElement,
    model: JointModel,
    probes: list[ProbeElement],
    one: Pose,
    two: Pose,
    diagnostics: Diagnostics,
) -> bool:
    """Choose the origin, and for a ball joint the order of its angles, that fit all measurements, if any do."""
    for order in _orders(model):
        trial = replace(model, names=[model.names[i] for i in order], axes=[model.axes[i] for i in order])
        errors = [max(max(_error(trial, o, p, one, two)) for p in probes) for o in model.origins]
        if min(errors) > TOLERANCE:
            continue
        best = next(o for o, e in zip(model.origins, errors, strict=True) if e <= min(errors) + _NOISE)
        if trial.names != model.names:
            message = f'joint "{element.name}" was measured to turn by {", then ".join(trial.names)}'
            diagnostics.note(f"{FORMAT}.order-of-angles", message, origin=element.place)
        model.names, model.axes, model.origins = trial.names, trial.axes, [best]
        return True
    return False


def _orders(model: JointModel) -> list[tuple[int, ...]]:
    """The orders in which the motions may act: those of a ball joint are not documented anywhere."""
    if model.names == ["pitch", "yaw", "roll"]:
        return list(permutations(range(3)))
    return [tuple(range(len(model.names)))]


def _relative(one: Pose, two: Pose) -> Pose:
    return two.inverse() @ one


def _has_moved(probe: ProbeElement, one: Pose, two: Pose) -> bool:
    return max(_relative(probe.pose1, probe.pose2).distance(_relative(one, two))) > 1e-9


def _amount(model: JointModel, probe: ProbeElement) -> float:
    return max((abs(v - model.values.get(name, v)) for name, v in probe.values.items()), default=0.0)


def _predicted(model: JointModel, origin: Array, values: dict[str, float], one: Pose, two: Pose) -> Pose:
    """Where occurrence one should be, seen from two."""
    frame = Pose(origin, model.turn)
    moved = frame @ model.motion(values) @ model.motion().inverse() @ frame.inverse() @ one
    return _relative(moved, two)


def _error(model: JointModel, origin: Array, probe: ProbeElement, one: Pose, two: Pose) -> tuple[float, float]:
    values = {name: value for name, value in probe.values.items() if name in model.values}
    return _predicted(model, origin, values, one, two).distance(_relative(probe.pose1, probe.pose2))


def _report(
    element: JointElement, model: JointModel, probe: ProbeElement, one: Pose, two: Pose, diagnostics: Diagnostics
) -> None:
    metres, radians = _error(model, model.origins[0], probe, one, two)
    driven = ", ".join(f"{n.replace('_', ' ')} {v:g}" for n, v in probe.values.items())
    message = (
        f'joint "{element.name}" ({element.type}), driven to {driven}, was measured {metres:.3g} m and '
        f"{radians:.3g} rad from where its frames and axes put it"
    )
    hint = _reason(model, probe, one, two)
    diagnostics.error(f"{FORMAT}.probe-disagrees", message, hint=hint, origin=probe.place)


def _reason(model: JointModel, probe: ProbeElement, one: Pose, two: Pose) -> str:
    """The likely cause of a disagreement."""
    if not model.names:
        return "the snapshot says that it does not move"
    measured = _relative(probe.pose1, probe.pose2)
    backwards = {n: 2 * model.values[n] - v for n, v in probe.values.items() if n in model.values}
    if any(max(_predicted(model, o, backwards, one, two).distance(measured)) <= TOLERANCE for o in model.origins):
        return "its axis points the other way"
    if len(probe.values) == 1:
        (name,) = probe.values
        ratio = _ratio(model, name, probe.values[name], measured, one, two)
        if ratio is not None and abs(ratio - 1) > 1e-3:
            return f"it moved {ratio:.4g} times as far as it should: a unit is wrong"
    return "its frame or its axis is wrong, or it is held by another joint"


def _ratio(model: JointModel, name: str, value: float, measured: Pose, one: Pose, two: Pose) -> float | None:
    """How far it moved, relative to what it was driven by."""
    step = abs(value - model.values[name])
    axis = model.axes[model.names.index(name)]
    metres, radians = measured.distance(_relative(one, two))
    moved = radians if axis.motion is AxisMotion.ROTATION else metres
    return moved / step if step > 0 and math.isfinite(moved) and np.isfinite(step) else None
