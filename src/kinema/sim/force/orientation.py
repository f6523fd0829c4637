"""Orientation servos: they turn something the shortest way to where three or four numbers say."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Place, Row, RowCode, Value

from ..arrays import Owner
from ..settings import Drive
from ..sweeps.cords import Cords
from ..sweeps.maths import dot, normalised, quaternion_product, rotation_vector, scale
from ..sweeps.sweeps import Sweeps
from .delay import heard_late, remembered

ORIENTATION = "orientation"
"""Actuators that are rows of such a servo."""
AXES = range(3)
TINY = 1e-15


def turn_together(s: Sweeps, actuators: Cords) -> None:
    """The torques about the three axes of what is turned, by what the rows of each servo are told.

    Of each row the drive and the speed are known by now. With R the present orientation and T the target, the torque is
    kp log(R^T T) - kv w, and at most as long as `force_upper`.
    """
    rows = [_row(s, actuators, own) for own in _servos(s, actuators)]
    s.loop("orientation servos", rows, lambda code: _turn(s, code))


def remember_quaternions(s: Sweeps, actuators: Cords) -> None:
    """Their first numbers, which pull on nothing by themselves, where they are heard late; see `remember_controls`."""
    late = [own for own in _servos(s, actuators) if len(own) > len(AXES) and s.model.actuators.samples[own[0]]]
    rows = [Row(int(s.model.actuators.samples[own[0]]), _first(s, own[0])) for own in late]

    def body(code: RowCode) -> None:
        n: int = code.kind  # type: ignore[assignment]
        code.write("history", remembered(s, code.read("w"), code.array("history", n)))

    s.loop("quaternions that are delayed", rows, body)


def _servos(s: Sweeps, actuators: Cords) -> list[list[int]]:
    """The rows of each servo that turns some of these frames."""
    servos: dict[int, list[int]] = {}
    for i, servo in enumerate(s.model.actuators.servo_idx.tolist()):
        if servo >= 0:
            servos.setdefault(servo, []).append(i)
    return [own for own in servos.values() if actuators.pairs.keys() >= set(own[-len(AXES) :])]


def _first(s: Sweeps, row: int) -> dict[str, Place]:
    """Where the first number of a quaternion is, and what is remembered of it."""
    places, info = {"w": s.arrays_of(Owner.ACTUATOR, row)["ctrl"]}, s.model.actuators
    if info.samples[row]:
        places["history"] = s.arrays_of(Owner.SAMPLE, int(info.samples[:row].sum()))["history"]
    return places


def _row(s: Sweeps, actuators: Cords, own: Sequence[int]) -> Row:
    info, axes = s.model.actuators, own[-len(AXES) :]
    places: dict[str, Place] = {}
    for k, i in enumerate(axes):
        places[f"pair {k}"] = actuators.pairs[i]
        places[f"turn {k}"] = actuators.along.lengths[actuators.paths[i]]
    first, is_quaternion = own[0], len(own) > len(AXES)
    if is_quaternion:
        places |= _first(s, first)
    heeds = s.settings.drive is not Drive.ACTUATORS
    if heeds:
        places["on"] = s.arrays_of(Owner.ACTUATOR, axes[0])["actuator_on"]
    numbers = {
        "kp": [float(info.gain[axes[0], 0])],
        "kv": [-float(info.bias[axes[0], 2])],
        "most": [float(info.force_upper[axes[0]])],
        "w bounds": [float(info.ctrl_lower[first]), float(info.ctrl_upper[first])],
        "delay": [float(info.delay[first])],
    }
    late = (int(info.samples[first]), info.interpolation[first]) if is_quaternion else (0, "")
    return Row(("quaternion" if is_quaternion else "vector", heeds, *late), places, numbers)


def _turn(s: Sweeps, code: RowCode) -> None:
    form, heeds, samples, interpolation = code.kind  # type: ignore[misc]
    pairs = [code.array(f"pair {k}", 2) for k in AXES]
    told, speeds = ([pair[which] for pair in pairs] for which in (0, 1))
    here = _quaternion([code.read(f"turn {k}") for k in AXES])
    there = _quaternion(told)
    if form == "quaternion":
        first = code.read("w")
        if samples:
            first = heard_late(s, interpolation, code.array("history", samples), code.number("delay"))
        there = _unit([trace.clamp(first, *code.numbers("w bounds")), *told])
    back = [here[0], *scale(-1.0, here[1:])]
    missing = rotation_vector(normalised(quaternion_product(back, there)))
    kp, kv, most = (code.number(name) for name in ("kp", "kv", "most"))
    torque = [kp * x - kv * w for x, w in zip(missing, speeds, strict=True)]
    size = trace.sqrt(trace.maximum(dot(torque, torque), TINY * TINY))
    share = trace.minimum(most / size, 1.0)
    slope = trace.select(size, most, -kv, 0.0)
    on = code.read("on") if heeds else 1.0
    for k in AXES:
        code.write(f"pair {k}", [on * share * torque[k], on * slope])


def _quaternion(turn: Sequence[Value]) -> list[Value]:
    """Of a rotation vector of any length."""
    half = scale(0.5, turn)
    angle = trace.sqrt(trace.maximum(dot(half, half), TINY * TINY))
    return [trace.cos(angle), *scale(trace.sin(angle) / angle, half)]


def _unit(q: Sequence[Value]) -> list[Value]:
    """A unit quaternion; no turn where there is none to be made."""
    square = dot(q, q)
    length = trace.sqrt(trace.maximum(square, TINY * TINY))
    known = trace.select(TINY * TINY, square, 1.0, 0.0)
    return [known * q[0] / length + (1.0 - known), *scale(known / length, q[1:])]
