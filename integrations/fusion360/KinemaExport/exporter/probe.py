"""The self-check: each joint is driven by a small step, what moves is measured, and the joint is put back.

The reader compares the measurements with what the joint's frames, axes, limits and units say. So nothing about them has
to be taken on trust.
"""

from __future__ import annotations

from typing import Any

from .api import attribute, difference
from .assembly import Assembly
from .joints import MOTIONS, JointRecord

STEP_ANGLE = 0.1
"""[rad]"""
STEP_LENGTH = 0.5
"""[cm]"""
_RETURNED = 1e-5
"""How far [cm, or parts of a direction] an occurrence may be from where it was, once its joint is put back."""


def probe_joint(record: JointRecord, assembly: Assembly, notes: list[str]) -> list[dict[str, Any]]:
    """Measurements: each motion by itself, then all of them together, which tells in which order they act."""
    names = MOTIONS[record.type]
    if not names or record.suppressed or record.locked:
        return []
    if record.proxy is None:
        notes.append(f"joint {record.name!r} in {record.context.path!r} cannot be driven there; it is not checked")
        return []
    start = {n: float(getattr(record.motion(), v)) for n, (_, v, _) in names.items()}
    before = _poses(record, assembly)
    samples = []
    try:
        targets = {n: start[n] + _step(record, n, start[n]) for n in names}
        rounds = [{n: targets[n]} for n in names] + ([targets] if len(names) > 1 else [])
        for values in rounds:
            if any(values[n] != start[n] for n in values):
                samples.append(_measure(record, assembly, values))
                _drive(record, start)
        if samples and all(s["values"][n] == start[n] for s in samples for n in s["values"]):
            samples = []
            notes.append(f"joint {record.name!r} did not move when it was driven; it is not checked")
    except RuntimeError as error:
        notes.append(f"joint {record.name!r} could not be driven ({error}); it is not checked")
    finally:
        _put_back(record, start, notes)
    after = _poses(record, assembly)
    if any(difference(a, b) > _RETURNED for a, b in zip(before, after)):
        notes.append(f"joint {record.name!r} did not return to where it was after it was driven")
    return samples


def _step(record: JointRecord, name: str, value: float) -> float:
    """A step that stays within the limits; zero where there is no room."""
    step = STEP_LENGTH if "slide" in name else STEP_ANGLE
    limits = attribute(record.motion(), MOTIONS[record.type][name][2])
    above = below = step
    if limits is not None and attribute(limits, "isMaximumValueEnabled", False):
        above = min(step, limits.maximumValue - value)
    if limits is not None and attribute(limits, "isMinimumValueEnabled", False):
        below = min(step, value - limits.minimumValue)
    if max(above, below) <= step * 1e-3:
        return 0.0
    return above if above >= below else -below


def _drive(record: JointRecord, values: dict[str, float]) -> None:
    for name, value in values.items():
        setattr(record.motion(), MOTIONS[record.type][name][1], value)


def _measure(record: JointRecord, assembly: Assembly, values: dict[str, float]) -> dict[str, Any]:
    _drive(record, values)
    # what the program made of it, should it have been rounded or held back
    reached = {n: float(getattr(record.motion(), MOTIONS[record.type][n][1])) for n in values}
    one, two = _poses(record, assembly)
    return {"values": reached, "pose1": one, "pose2": two}


def _poses(record: JointRecord, assembly: Assembly) -> list[list[float]]:
    return [assembly.pose(record.one), assembly.pose(record.two)]


def _put_back(record: JointRecord, start: dict[str, float], notes: list[str]) -> None:
    for name, value in start.items():
        try:
            _drive(record, {name: value})
        except RuntimeError as error:
            notes.append(f"joint {record.name!r}: its {name} could not be put back to {value:g} ({error})")
