"""What an actuator has beside its transmission: how its activation follows its control, and how a muscle pulls."""

from __future__ import annotations

import numpy as np

from kinema.description import Actuator
from kinema.foundation import Array
from kinema.words import mjcf

TINY = 1e-15
"""What MuJoCo divides by instead of anything smaller."""
DYNAMICS = ("none", "integrator", "filter", "filterexact", "muscle")
"""How an activation may follow a control."""
GAINS = ("fixed", "affine", "muscle", "so3")
BIASES = ("none", "affine", "muscle", "so3")
INTERPOLATIONS = ("zoh", "linear", "cubic")
MOST_SAMPLES = 100
"""Of earlier controls that an actuator may remember: they all move on in each step."""
N_MUSCLE = 9
"""Numbers of a muscle: range (2), force, scale, lmin, lmax, vmax, fpmax, fvmax."""


def unsupported(actuator: Actuator) -> str:
    """Why an actuator cannot be simulated, in words; empty where it can."""
    if actuator.settings.get(mjcf.PLUGIN):
        return "a plugin"
    if actuator.dynamics_type not in DYNAMICS:
        return f"activation dynamics ({actuator.dynamics_type})"
    if actuator.gain_type not in GAINS:
        return f"gain of type {actuator.gain_type}"
    if actuator.bias_type not in BIASES:
        return f"bias of type {actuator.bias_type}"
    return ""


def ignored(actuator: Actuator) -> list[str]:
    """What of an actuator that can be simulated is not."""
    return [mjcf.DELAY] if _samples(actuator)[0] > MOST_SAMPLES else []


def samples_of(actuator: Actuator) -> tuple[int, str]:
    """How many controls it remembers to hear them late, and what it hears between them; 0 where it is not late."""
    count, way = _samples(actuator)
    return (count, INTERPOLATIONS[way]) if 0 < count <= MOST_SAMPLES else (0, "")


def _samples(actuator: Actuator) -> tuple[int, int]:
    count, way = (*actuator.settings.get(mjcf.HISTORY, ()), 0, 0)[:2]
    return (int(count), int(way)) if actuator.settings.get(mjcf.DELAY, 0.0) > 0.0 else (0, 0)


def n_controls(actuator: Actuator) -> int:
    """How many numbers it is told: one, or where something is to turn to, as a rotation vector or a quaternion."""
    return max(int(actuator.settings.get(mjcf.N_CONTROLS, 0)), 1)


def control_range(actuator: Actuator, number: int) -> tuple[float, float]:
    """The bounds of one of them."""
    ranges = actuator.settings.get(mjcf.CONTROL_RANGES, ())
    return ranges[number] if number < len(ranges) else actuator.control_range


def kind_of(actuator: Actuator) -> str:
    """How force follows from what drives it."""
    if actuator.gain_type == "so3":
        return "orientation"
    gain, bias = actuator.gain_type == "muscle", actuator.bias_type == "muscle"
    return {(True, True): "muscle", (True, False): "muscle gain", (False, True): "muscle bias"}.get(
        (gain, bias), "affine"
    )


def feels_length(actuator: Actuator) -> bool:
    """Whether its force depends on how long it is, or how fast it changes."""
    return (
        kind_of(actuator) != "affine"
        or (actuator.gain_type == "affine" and any(actuator.gain[1:3]))
        or (actuator.bias_type == "affine" and any(actuator.bias[1:3]))
    )


def dynamics_of(actuator: Actuator) -> str:
    """How its activation follows its control: a muscle's time constants may change smoothly from one to the other."""
    smooth = actuator.dynamics_type == "muscle" and len(actuator.dynamics) > 2 and actuator.dynamics[2] >= TINY
    return "smooth muscle" if smooth else actuator.dynamics_type


def is_early(actuator: Actuator) -> bool:
    """Whether it already pulls with the activation of the next step."""
    return bool(actuator.settings.get(mjcf.ACTEARLY)) and actuator.dynamics_type != "none"


def time_constants(actuator: Actuator) -> Array:
    """Of a filter one; of a muscle those of activation and deactivation, and the width of the change between them."""
    given = padded(actuator.dynamics, 3)
    if actuator.dynamics_type in ("filter", "filterexact"):
        given = np.array([max(TINY, given[0]), 0.0, 0.0])
    return given if actuator.dynamics_type != "none" else np.zeros(3)


def muscle_gain(actuator: Actuator) -> Array:
    """What turns length and speed into the curve of the active force; see `ActuatorsInfo.muscle_gain`."""
    if actuator.gain_type != "muscle":
        return np.zeros(9)
    low, high, _, _, shortest, longest, fastest, _, stretched = padded(actuator.gain, N_MUSCLE)
    optimum = _optimum(actuator, low, high)
    widths = [2.0 / max(2 * TINY, 1.0 - shortest), 2.0 / max(2 * TINY, longest - 1.0)]
    beyond = stretched - 1.0
    return np.array(
        [
            *_normal_length(actuator, low, optimum),
            1.0 / max(TINY, optimum * fastest),
            *widths,
            stretched,
            beyond,
            1.0 / max(TINY, beyond),
        ]
    )


def muscle_bias(actuator: Actuator) -> Array:
    """What turns length into the curve of the passive force; see `ActuatorsInfo.muscle_bias`."""
    if actuator.bias_type != "muscle":
        return np.zeros(5)
    low, high, _, _, _, longest, _, peak, _ = padded(actuator.bias, N_MUSCLE)
    width = 2.0 / max(2 * TINY, longest - 1.0)
    return np.array([*_normal_length(actuator, low, _optimum(actuator, low, high)), width, peak])


def peaks(actuator: Actuator) -> tuple[list[float], list[bool]]:
    """The peak forces of gain and bias, and whether each is still to be divided by what a unit force accelerates."""
    forces, relative = [0.0, 0.0], [False, False]
    for i, (kind, numbers) in enumerate(
        ((actuator.gain_type, actuator.gain), (actuator.bias_type, actuator.bias)),
    ):
        if kind == "muscle":
            force, scale = padded(numbers, N_MUSCLE)[2:4]
            relative[i] = bool(force < 0.0)
            forces[i] = float(scale if relative[i] else force)
    return forces, relative


def _optimum(actuator: Actuator, low: float, high: float) -> float:
    """The length at which a muscle pulls most."""
    shortest, longest = actuator.length_range
    return (longest - shortest) / max(TINY, high - low)


def _normal_length(actuator: Actuator, low: float, optimum: float) -> tuple[float, float, float]:
    """The shortest length, that in optimal lengths, and what a length is multiplied by for that."""
    return actuator.length_range[0], low, 1.0 / max(TINY, optimum)


def padded(values: tuple[float, ...], count: int) -> Array:
    """The first numbers, with zeros where there are fewer."""
    result = np.zeros(count)
    result[: min(count, len(values))] = values[:count]
    return result
