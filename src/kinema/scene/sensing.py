"""Sensors by name: what they tell now, and what is wrong with it if that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from kinema.foundation import Array, KinemaError

from .arguments import flag
from .batches import as_array, environments
from .running import Running
from .sampling import Samples

PARAMETERS = ("noise", "bias", "bias_std", "resolution", "rate", "delay")


class Sensor:
    """One sensor of a scene: `read()` tells what it measures now."""

    def __init__(self, sensors: Sensors, number: int) -> None:
        info = sensors._info
        self._sensors, self._number = sensors, number
        self.name = info.names[number]
        self.kind = info.kinds[number]
        """The word of its file: `gyro`, `imu`, `lidar`, ..."""
        self.parts = dict(info.parts[number])
        """Where its parts are among its numbers, of one that measures several things: an IMU."""
        self._numbers = slice(int(info.start[number]), int(info.end[number]))

    def __repr__(self) -> str:
        return f"<Sensor {self.name}: {self.kind}, {self.dim} numbers>"

    @property
    def dim(self) -> int:
        """How many numbers it tells."""
        return self._numbers.stop - self._numbers.start

    def read(self, part: str | None = None, envs_idx: Any = None) -> np.ndarray:
        """What it measures, (n_envs, dim), in the units of its kind (m, rad, m/s, rad/s, m/s2, N, N m, T, J, s).

        Args:
            part: one of its `parts` alone, such as `angular_velocity` of an IMU.
            envs_idx: which environments; None for all.
        """
        return np.array(self._sensors._told(envs_idx)[:, self._part(part)])

    def _part(self, part: str | None) -> slice:
        if part is None:
            return self._numbers
        if not isinstance(part, str):
            raise KinemaError(f'a part of sensor "{self.name}" has a name, not {part!r}; environments are envs_idx=')
        if part not in self.parts:
            known = ", ".join(self.parts) or "no parts"
            raise KinemaError(f'sensor "{self.name}" has no part {part!r}; it has: {known}')
        first, last = self.parts[part]
        return slice(self._numbers.start + first, self._numbers.start + last)

    def set(self, part: str | None = None, **values: Any) -> None:
        """What is wrong with what it tells, from now on; the file's own values count only where they are asked for.

        Args:
            part: one of its `parts` alone; None for all.
            **values: `noise`, the standard deviation of each number at each measurement; `bias`, what is added to it,
                and `bias_std`, by how much that differs between environments; `resolution`, what it is a multiple of;
                `rate`, how often it measures [Hz]; `delay`, how late it tells [s]. 0 for none.
        """
        unknown = sorted(set(values) - set(PARAMETERS))
        if unknown:
            raise KinemaError(f"set: a sensor has no {', '.join(unknown)}; it has: {', '.join(PARAMETERS)}")
        self._sensors._samples.set(self._number, self._part(part), values, self.name)

    def tell(self, values: Any, envs_idx: Any = None) -> None:
        """Give a sensor of kind `user` the numbers that it tells from now on, (dim,) or (n_envs, dim)."""
        if self.kind != "user":
            raise KinemaError(f'sensor "{self.name}" is a {self.kind}: only those of kind user are told what to tell')
        self._sensors._give(self._numbers, values, envs_idx)


class Sensors(Mapping[str, Sensor]):
    """All sensors of a scene, in the order of its files: `scene.sensors["imu"].read()`.

    Everything is that of the present state, computed in one launch when it is first read after a step, and not at all
    where nobody reads. MuJoCo tells the same after `mj_forward`.
    """

    def __init__(self, running: Running) -> None:
        self._running = running
        self._info = running.model.sensors
        self._by_name = {name: i for i, name in enumerate(self._info.names)}
        self._given: Array | None = None
        self._samples = Samples(self._info, running.n_envs, running.engine, self._present)

    @property
    def names(self) -> list[str]:
        """The names of all, in order; after their entity where two entities have sensors of one name."""
        return list(self._info.names)

    def __getitem__(self, name: str) -> Sensor:
        number = self._by_name.get(name)
        if number is None:
            known = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
            raise KinemaError(f"there is no sensor {name!r}; there are: {known or 'none'}")
        return Sensor(self, number)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self._by_name)

    def __repr__(self) -> str:
        return f"<Sensors: {', '.join(self.names) or 'none'}>"

    @property
    def data(self) -> np.ndarray:
        """What all tell, (n_envs, numbers): one after the other as in MuJoCo's `sensordata`."""
        return np.array(self._told(None))

    def to_torch(self) -> Any:
        """Likewise as a PyTorch tensor on the engine's own memory, without what is set to be wrong with it."""
        return self._running.engine.fields.sensors.reading.to_torch().T

    def as_files_say(self, on: bool = True, *, seed: int = 0) -> None:
        """Whether sensors have the noise, bias, resolution, rate and delay of their files; until asked for they do not.

        Args:
            on: False takes back all that was set.
            seed: of what is drawn at random; the same seed gives the same numbers.
        """
        self._samples.as_files_say(flag(on, "as_files_say"), seed)

    @property
    def is_timed(self) -> bool:
        """Whether any sensor measures at times of its own: then each step is looked at."""
        return self._samples.is_timed

    def _present(self) -> np.ndarray:
        """What ideal sensors tell, (n_envs, numbers)."""
        if not self._info.n_numbers:
            return np.zeros((self._running.n_envs, 0))
        found = np.asarray(self._running.engine.fields.sensors.reading.numpy()).T
        if self._given is None:
            return found
        return np.where(np.isnan(self._given), found, self._given)

    def _told(self, envs_idx: Any) -> np.ndarray:
        chosen = environments(envs_idx, self._running.n_envs)
        told = self._samples.told()
        return told if chosen is None else told[chosen]

    def _give(self, numbers: slice, values: Any, envs_idx: Any) -> None:
        n_envs = self._running.n_envs
        if self._given is None:
            self._given = np.full((n_envs, self._info.n_numbers), np.nan)
        chosen = environments(envs_idx, n_envs)
        rows = np.arange(n_envs) if chosen is None else chosen
        array = as_array(values, np.float64, "tell")
        try:
            self._given[rows, numbers] = np.broadcast_to(array, (len(rows), numbers.stop - numbers.start))
        except ValueError:
            width = numbers.stop - numbers.start
            raise KinemaError(f"tell: expected numbers of shape ({width},), not {array.shape}") from None
        self._running.engine.touch()
