"""What is wrong with sensors: noise, bias, steps in what they tell, and that they measure seldom and tell late."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kinema.foundation import Array, KinemaError
from kinema.model import SensorsInfo
from kinema.sim import Engine

from .batches import as_array

SOON = 1e-9
"""Times that differ by less [s] are the same."""


class Samples:
    """What sensors have measured, and with which flaws."""

    def __init__(self, info: SensorsInfo, n_envs: int, engine: Engine, present: Callable[[], np.ndarray]) -> None:
        self._info, self._n_envs, self._engine, self._present = info, n_envs, engine, present
        self._seed = 0
        self._clear()

    def _clear(self) -> None:
        n, m = self._info.n_numbers, len(self._info.names)
        self.noise, self.bias, self.bias_std, self.resolution = (np.zeros(n) for _ in range(4))
        self.rate, self.delay = np.zeros(m), np.zeros(m)
        self._taken: dict[int, deque[tuple[float, np.ndarray]]] = {}
        self._known: tuple[object, np.ndarray] | None = None
        self._biases: Array | None = None

    @property
    def is_timed(self) -> bool:
        """Whether any sensor measures seldom or tells late."""
        return bool(self.rate.any() or self.delay.any())

    def as_files_say(self, on: bool, seed: int) -> None:
        """Take the files' own flaws, or none."""
        self._clear()
        self._seed = int(seed)
        info = self._info
        if on:
            self.noise, self.bias, self.bias_std = info.noise.copy(), info.bias_mean.copy(), info.bias_std.copy()
            self.resolution, self.rate, self.delay = info.resolution.copy(), info.rate.copy(), info.delay.copy()
        self.look(start=True)

    def set(self, number: int, numbers: slice, values: Mapping[str, Any], name: str) -> None:
        """Set some flaws of a sensor."""
        for what, value in values.items():
            array = as_array(value, np.float64, f'set: the {what} of sensor "{name}"')
            if not np.isfinite(array).all() or (what != "bias" and (array < 0).any()):
                raise KinemaError(f'set: the {what} of sensor "{name}" is not {value!r}: it is at least 0')
            if what in ("rate", "delay"):
                getattr(self, what)[number] = array
            else:
                try:
                    getattr(self, what)[numbers] = array
                except ValueError:
                    width = numbers.stop - numbers.start
                    message = f'set: the {what} of sensor "{name}" is one number or {width}, not {array.shape}'
                    raise KinemaError(message) from None
        self._biases, self._known = None, None
        self.look(start=True)

    # ------------------------------------------------------------------------------------------------- what is told

    def told(self) -> np.ndarray:
        """What all sensors tell now, (n_envs, numbers)."""
        now = self._measured()
        if not self.is_timed:
            return now
        now = now.copy()
        for number, samples in self._taken.items():
            late = self._engine.seconds - self.delay[number] + SOON
            heard = next((values for time, values in reversed(samples) if time <= late), samples[0][1])
            now[:, self._numbers(number)] = heard
        return now

    def look(self, *, start: bool = False, envs: np.ndarray | None = None) -> None:
        """Let sensors measure whose time has come: called after each step where any is timed.

        At the start, and in environments that were reset, all that they have measured is what they measure now.
        """
        timed = [i for i in range(len(self.rate)) if self.rate[i] or self.delay[i]]
        if not timed:
            self._taken.clear()
            return
        time, now = self._engine.seconds, self._measured()
        for number in timed:
            own = now[:, self._numbers(number)]
            samples = self._taken.setdefault(number, deque())
            if start or not samples:
                samples.clear()
                samples.append((time, own.copy()))
            elif envs is not None:
                for _, values in samples:
                    values[envs] = own[envs]
            elif time >= samples[-1][0] + self._period(number) - SOON:
                due = samples[-1][0] + self._period(number)
                samples.append((due if self.rate[number] else time, own.copy()))
                while len(samples) > 1 and samples[1][0] <= time - self.delay[number] + SOON:
                    samples.popleft()

    def _period(self, number: int) -> float:
        return 1.0 / self.rate[number] if self.rate[number] else 0.0

    def _numbers(self, number: int) -> slice:
        return slice(int(self._info.start[number]), int(self._info.end[number]))

    def _measured(self) -> np.ndarray:
        """What is measured now; read twice at one state it is the same."""
        version = self._engine.version
        if self._known is None or self._known[0] != version:
            self._known = (version, self._flawed(self._present()))
        return self._known[1]

    def _flawed(self, ideal: np.ndarray) -> np.ndarray:
        if not (self.noise.any() or self.bias.any() or self.bias_std.any() or self.resolution.any()):
            return ideal
        told = ideal + self._constant_bias()
        if self.noise.any():
            drawn = np.random.default_rng([self._seed, 1, self._engine.time]).standard_normal(told.shape)
            told += self.noise * drawn
        step = np.where(self.resolution > 0.0, self.resolution, 1.0)
        whole = np.isfinite(told) & (self.resolution > 0.0)
        return np.where(whole, np.round(np.where(whole, told, 0.0) / step) * step, told).astype(ideal.dtype)

    def _constant_bias(self) -> Array:
        """Of each environment, drawn once."""
        if self._biases is None:
            drawn = np.random.default_rng([self._seed, 2]).standard_normal((self._n_envs, len(self.bias)))
            self._biases = self.bias + self.bias_std * drawn
        return self._biases
