"""Rules about joints that follow others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from kinema.description import Axis, Joint, Mimic
from kinema.foundation import Severity

from .context import Context
from .rule import Finding, rule
from .words import axis_label, coordinate, label, listing


def _followers(context: Context) -> Iterator[tuple[Joint, Axis, Mimic]]:
    for joint in context.joints:
        for axis in joint.axes:
            if axis.mimic is not None:
                yield joint, axis, axis.mimic


def _led(context: Context) -> Iterator[tuple[Joint, Axis, Mimic, Joint, Axis]]:
    """Followers whose leader exists and is another joint, with that leader."""
    for joint, axis, mimic in _followers(context):
        leader = context.joint_by_name.get(mimic.joint)
        if leader is not None and leader is not joint and 0 <= mimic.axis < len(leader.moving_axes):
            yield joint, axis, mimic, leader, leader.moving_axes[mimic.axis]


@rule("mimic.unknown-joint", Severity.ERROR)
def unknown_joint(context: Context) -> Iterable[Finding]:
    """A joint follows one that does not exist."""
    for joint, axis, mimic in _followers(context):
        if mimic.joint not in context.joint_by_name:
            message = f'{axis_label(joint, axis)} follows the joint "{mimic.joint}", which does not exist'
            yield Finding(joint, message, "correct the name, or remove the mimic")


@rule("mimic.unknown-axis", Severity.ERROR)
def unknown_axis(context: Context) -> Iterable[Finding]:
    """A joint follows an axis that the leading joint does not have, or that is locked."""
    for joint, axis, mimic in _followers(context):
        leader = context.joint_by_name.get(mimic.joint)
        if leader is not None and not 0 <= mimic.axis < len(leader.moving_axes):
            have = f"{leader.n_dofs} moving {'axis' if leader.n_dofs == 1 else 'axes'}"
            message = f"{axis_label(joint, axis)} follows axis {mimic.axis + 1} of {label(leader)}, which has {have}"
            yield Finding(joint, message, "follow a joint that moves")


@rule("mimic.self", Severity.ERROR)
def follows_itself(context: Context) -> Iterable[Finding]:
    """A joint follows itself."""
    for joint, axis, mimic in _followers(context):
        if mimic.joint == joint.name:
            yield Finding(joint, f"{axis_label(joint, axis)} follows itself", "name another joint, or remove the mimic")


@rule("mimic.circle", Severity.ERROR)
def circle(context: Context) -> Iterable[Finding]:
    """Joints follow each other in a circle, so that none of them leads."""
    leaders: dict[str, list[str]] = {}
    for joint, _, mimic in _followers(context):
        if mimic.joint in context.joint_by_name and mimic.joint != joint.name:
            leaders.setdefault(joint.name, []).append(mimic.joint)
    for names in _circles(leaders):
        message = f"the joints {listing(names)} follow each other in a circle"
        yield Finding(context.joint_by_name[names[0]], message, "remove the mimic of the one that should lead")


def _circles(leaders: dict[str, list[str]]) -> list[list[str]]:
    """Circles in the graph, each once; a joint with several leaders is tried along the first that is not done."""
    circles: list[list[str]] = []
    done: set[str] = set()
    for start in leaders:
        path: list[str] = []
        place: dict[str, int] = {}
        waiting = [(start, 0)]
        while waiting:
            name, depth = waiting.pop()
            for gone in path[depth:]:
                done.add(gone)
                place.pop(gone, None)
            del path[depth:]
            if name in place:
                circles.append(path[place[name] :])
                continue
            if name in done:
                continue
            place[name] = depth
            path.append(name)
            waiting.extend((leader, depth + 1) for leader in leaders.get(name, ()))
        done.update(path)
    return circles


@rule("mimic.chain", Severity.NOTE)
def chain(context: Context) -> Iterable[Finding]:
    """A joint follows one that follows another itself: some programs do not support that."""
    for joint, axis, _, leader, leading in _led(context):
        if leading.mimic is not None:
            message = f'{axis_label(joint, axis)} follows {label(leader)}, which itself follows "{leading.mimic.joint}"'
            yield Finding(joint, message, f'let it follow "{leading.mimic.joint}" directly')


@rule("mimic.zero-multiplier", Severity.WARNING)
def zero_multiplier(context: Context) -> Iterable[Finding]:
    """A joint follows another with a multiplier of zero: it never moves."""
    for joint, axis, mimic in _followers(context):
        if mimic.multiplier == 0:
            message = f'{axis_label(joint, axis)} follows "{mimic.joint}" with a multiplier of zero'
            yield Finding(joint, message, "give the multiplier, or make it a fixed joint")


@rule("mimic.kinds", Severity.NOTE)
def kinds(context: Context) -> Iterable[Finding]:
    """A sliding joint follows a turning one, or the reverse: right for a rack and pinion, else a mistake.

    The multiplier is then in metres per radian, or radians per metre.
    """
    for joint, axis, _, leader, leading in _led(context):
        if axis.motion is not leading.motion:
            message = f"{label(joint)} ({axis.motion.value}) follows {label(leader)} ({leading.motion.value})"
            yield Finding(joint, message, "check that the multiplier is in m/rad, or rad/m")


@rule("mimic.limits", Severity.WARNING)
def limits(context: Context) -> Iterable[Finding]:
    """Where its leader may go, a following joint would have to leave its own limits.

    One of the two then stops before its limit, or the two fight each other.
    """
    for joint, axis, mimic, _, leading in _led(context):
        ends = [mimic.multiplier * (v - mimic.reference) + mimic.offset for v in (leading.lower, leading.upper)]
        if not all(math.isfinite(v) for v in ends) or not axis.lower <= axis.upper:
            continue
        low, high = min(ends), max(ends)
        slack = 0.01 * max(high - low, 1e-6)
        if low < axis.lower - slack or high > axis.upper + slack:
            reach = f"{coordinate(axis, low)} to {coordinate(axis, high)}"
            own = f"{coordinate(axis, axis.lower)} to {coordinate(axis, axis.upper)}"
            message = f'{axis_label(joint, axis)} follows "{mimic.joint}" from {reach}, but its limits are {own}'
            yield Finding(joint, message, "widen its limits, or narrow those of its leader")
