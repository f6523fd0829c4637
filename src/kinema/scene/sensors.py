"""Sensors by name, their readings, and their error model: noise, bias, quantization, sampling rate and delay.

Ideal readings are computed by the engine in one launch when they are first read after a step; errors are added on the
host.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError
from kinema.dynamics import Engine
from kinema.model import SensorsInfo

from .arguments import as_array, boolean, resolve_envs
from .built_scene import HasBuiltScene

# ---------------------------------------------------------------------------------------------- error model

TIME_TOLERANCE = 1e-9
"""Tolerance of time comparisons [s]."""


class SensorErrorModel:
    """Error model of all sensors of a scene: bias, Gaussian noise, quantization, sampling rate and delay.

    Noise is drawn once per step and depends on seed and step count only; biases are drawn once per environment. Sensors
    with a rate or delay keep a history of time-stamped measurements.
    """

    def __init__(self, scene: HasBuiltScene, read_ideal: Callable[[], np.ndarray]) -> None:
        self._scene, self._read_ideal = scene, read_ideal
        self._info: SensorsInfo = scene.built.model.sensors
        self._seed = 0
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Set all error parameters to zero and clear history and caches."""
        n, m = self._info.n_values, len(self._info.names)
        self.noise, self.bias, self.bias_std, self.resolution = (np.zeros(n) for _ in range(4))
        self.rate, self.delay = np.zeros(m), np.zeros(m)
        self._history: dict[int, deque[tuple[float, np.ndarray]]] = {}
        self._cached_measurement: tuple[object, np.ndarray] | None = None
        self._bias_per_env: Array | None = None

    @property
    def _engine(self) -> Engine:
        return self._scene.built.engine

    @property
    def has_rate_or_delay(self) -> bool:
        """Whether any sensor has a sampling rate or a delay, so that every step must be observed."""
        return bool(self.rate.any() or self.delay.any())

    def use_file_parameters(self, enabled: bool, seed: int) -> None:
        """Use the error parameters of the files, or none; restarts the history of measurements."""
        self._reset_parameters()
        self._seed = int(seed)
        info = self._info
        if enabled:
            self.noise, self.bias, self.bias_std = info.noise.copy(), info.bias_mean.copy(), info.bias_std.copy()
            self.resolution, self.rate, self.delay = info.resolution.copy(), info.rate.copy(), info.delay.copy()
        self.sample(restart=True)

    def set(self, sensor: int, columns: slice, values: Mapping[str, Any], name: str) -> None:
        """Set error parameters (noise, bias, ...) of a sensor, and restart the history of its measurements.

        Args:
            sensor: index of the sensor.
            columns: columns of the sensor, or of one of its components, in the sensor data.
            values: parameters by name: `noise`, `bias`, `bias_std`, `resolution` (a scalar or one per column), `rate`
                [Hz], `delay` [s]; all but `bias` must be >= 0.
            name: name of the sensor for error messages.
        """
        for parameter, value in values.items():
            array = as_array(value, np.float64, f'set_error_model: the {parameter} of sensor "{name}"')
            if not np.isfinite(array).all() or (parameter != "bias" and (array < 0).any()):
                raise KinemaError(
                    f'set_error_model: the {parameter} of sensor "{name}" is not {value!r}: it is at least 0'
                )
            if parameter in ("rate", "delay"):
                getattr(self, parameter)[sensor] = array
            else:
                try:
                    getattr(self, parameter)[columns] = array
                except ValueError:
                    width = columns.stop - columns.start
                    message = (
                        f'set_error_model: the {parameter} of sensor "{name}" is one number or {width}, '
                        f"not {array.shape}"
                    )
                    raise KinemaError(message) from None
        self._bias_per_env, self._cached_measurement = None, None
        self.sample(restart=True)

    # -------------------------------------------------------------------------------------------- measurements

    def measurements(self) -> np.ndarray:
        """Current data of all sensors with errors, rate and delay applied, (n_envs, values).

        A sensor with rate or delay returns its latest measurement that is at least as old as the delay.
        """
        result = self._current_measurement()
        if not self.has_rate_or_delay:
            return result
        result = result.copy()
        for sensor, samples in self._history.items():
            latest_time = self._engine.sim_time - self.delay[sensor] + TIME_TOLERANCE
            delayed = next((values for time, values in reversed(samples) if time <= latest_time), samples[0][1])
            result[:, self._columns(sensor)] = delayed
        return result

    def sample(self, *, restart: bool = False, envs: np.ndarray | None = None) -> None:
        """Append a measurement to the history of every sensor with rate or delay whose sampling time has come.

        Called after each step; measurements older than the delay are dropped.

        Args:
            restart: replace the history by the current measurement.
            envs: environments that were reset: their past measurements are replaced by the current one.
        """
        timed_sensors = [i for i in range(len(self.rate)) if self.rate[i] or self.delay[i]]
        if not timed_sensors:
            self._history.clear()
            return
        time, measurement = self._engine.sim_time, self._current_measurement()
        for sensor in timed_sensors:
            values = measurement[:, self._columns(sensor)]
            samples = self._history.setdefault(sensor, deque())
            if restart or not samples:
                samples.clear()
                samples.append((time, values.copy()))
            elif envs is not None:
                for _, past in samples:
                    past[envs] = values[envs]
            elif time >= samples[-1][0] + self._period(sensor) - TIME_TOLERANCE:
                due = samples[-1][0] + self._period(sensor)
                samples.append((due if self.rate[sensor] else time, values.copy()))
                while len(samples) > 1 and samples[1][0] <= time - self.delay[sensor] + TIME_TOLERANCE:
                    samples.popleft()

    def _period(self, sensor: int) -> float:
        """Sampling period of a sensor [s]; 0 without a rate."""
        return 1.0 / self.rate[sensor] if self.rate[sensor] else 0.0

    def _columns(self, sensor: int) -> slice:
        return slice(int(self._info.start[sensor]), int(self._info.end[sensor]))

    def _current_measurement(self) -> np.ndarray:
        """Measurement of the current state with bias, noise and quantization, (n_envs, values); cached."""
        version = (self._engine, self._engine.version)
        if self._cached_measurement is None or self._cached_measurement[0] != version:
            self._cached_measurement = (version, self._with_errors(self._read_ideal()))
        return self._cached_measurement[1]

    def _with_errors(self, ideal: np.ndarray) -> np.ndarray:
        """Add constant bias and Gaussian noise to ideal sensor data (n_envs, values), and round to the resolution."""
        if not (self.noise.any() or self.bias.any() or self.bias_std.any() or self.resolution.any()):
            return ideal
        readings = ideal + self._constant_bias()
        if self.noise.any():
            samples = np.random.default_rng([self._seed, 1, self._engine.step_count]).standard_normal(readings.shape)
            readings += self.noise * samples
        step = np.where(self.resolution > 0.0, self.resolution, 1.0)
        quantized = np.isfinite(readings) & (self.resolution > 0.0)
        return np.where(quantized, np.round(np.where(quantized, readings, 0.0) / step) * step, readings).astype(
            ideal.dtype
        )

    def _constant_bias(self) -> Array:
        """Constant bias, (n_envs, values), drawn once from a normal distribution (`bias`, `bias_std`)."""
        if self._bias_per_env is None:
            samples = np.random.default_rng([self._seed, 2]).standard_normal((self._engine.n_envs, len(self.bias)))
            self._bias_per_env = self.bias + self.bias_std * samples
        return self._bias_per_env


# --------------------------------------------------------------------------------------------- sensors by name

ERROR_PARAMETERS = ("noise", "bias", "bias_std", "resolution", "rate", "delay")
"""Parameters of `Sensor.set_error_model`."""


class Sensor:
    """One sensor of a scene; `read()` returns its current reading."""

    def __init__(self, sensors: Sensors, index: int) -> None:
        """Handle of the sensor with an index; name, type, components and columns are taken from the model."""
        info = sensors._info
        self._sensors, self._index = sensors, index
        self.name = info.names[index]
        self.kind = info.kinds[index]
        """Sensor type of its file: `gyro`, `imu`, `lidar`, ..."""
        self.components = dict(info.channels[index])
        """First and last (exclusive) column of each component of a composite sensor such as an IMU, by name."""
        self._columns = slice(int(info.start[index]), int(info.end[index]))

    def __repr__(self) -> str:
        return f"<Sensor {self.name}: {self.kind}, {self.dim} values>"

    @property
    def dim(self) -> int:
        """Number of values of a reading."""
        return self._columns.stop - self._columns.start

    def read(self, component: str | None = None, envs_idx: Any = None) -> np.ndarray:
        """Current reading, (n_envs, dim), in the SI unit of the sensor type.

        Args:
            component: one of `components`, such as `angular_velocity` of an IMU; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return np.array(self._sensors._readings(envs_idx)[:, self._component_columns(component)])

    def _component_columns(self, component: str | None) -> slice:
        """Columns of a component (None for all) in the sensor data.

        Raises `KinemaError` if there is no such component.
        """
        if component is None:
            return self._columns
        if not isinstance(component, str):
            raise KinemaError(
                f'a component of sensor "{self.name}" has a name, not {component!r}; for environments use envs_idx='
            )
        if component not in self.components:
            known = ", ".join(self.components) or "no components"
            raise KinemaError(f'sensor "{self.name}" has no component {component!r}; it has: {known}')
        first, last = self.components[component]
        return slice(self._columns.start + first, self._columns.start + last)

    def set_error_model(self, component: str | None = None, **parameters: Any) -> None:
        """Set error parameters of the sensor; parameters of the file apply only after `Sensors.use_file_error_model`.

        Args:
            component: one of `components`; None for all.
            **parameters: `noise`, standard deviation of the noise per measurement; `bias`, constant offset; `bias_std`,
                standard deviation of the offset between environments; `resolution`, quantization step; `rate`, sampling
                rate [Hz]; `delay` [s]. 0 disables.
        """
        unknown = sorted(set(parameters) - set(ERROR_PARAMETERS))
        if unknown:
            raise KinemaError(
                f"set_error_model: a sensor has no {', '.join(unknown)}; it has: {', '.join(ERROR_PARAMETERS)}"
            )
        self._sensors._error_model.set(self._index, self._component_columns(component), parameters, self.name)

    def write(self, values: Any, envs_idx: Any = None) -> None:
        """Set the reading of a sensor of type `user` from now on.

        Args:
            values: values, (dim,) or (n_envs, dim).
            envs_idx: environments by index, slice or mask; None for all.
        """
        if self.kind != "user":
            raise KinemaError(f'sensor "{self.name}" is a {self.kind}: only readings of user sensors can be written')
        self._sensors._set_user_values(self._columns, values, envs_idx)


class Sensors(Mapping[str, Sensor]):
    """All sensors of a scene by name, in the order of its files: `scene.sensors["imu"].read()`.

    Readings belong to the current state, as in MuJoCo after `mj_forward`; they are computed in one launch when they are
    first read after a step.
    """

    def __init__(self, scene: HasBuiltScene) -> None:
        self._scene = scene
        self._info = scene.built.model.sensors
        self._by_name = {name: i for i, name in enumerate(self._info.names)}
        self._user_values: Array | None = None
        self._error_model = SensorErrorModel(scene, self._read_ideal)

    @property
    def names(self) -> list[str]:
        """Names of all sensors, in index order.

        Prefixed with the entity's name if two entities have sensors of one name.
        """
        return list(self._info.names)

    def __getitem__(self, name: str) -> Sensor:
        index = self._by_name.get(name)
        if index is None:
            known = ", ".join(self.names[:12]) + (", ..." if len(self.names) > 12 else "")
            raise KinemaError(f"there is no sensor {name!r}; there are: {known or 'none'}")
        return Sensor(self, index)

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
        """Readings of all sensors, (n_envs, values), in the layout of MuJoCo's `sensordata`."""
        return np.array(self._readings(None))

    def to_torch(self) -> Any:
        """Ideal readings of all sensors, (n_envs, values), as a PyTorch tensor that shares the engine's memory."""
        return self._scene.built.engine.fields.sensors.sensordata.to_torch().T

    def use_file_error_model(self, enabled: bool = True, *, seed: int = 0) -> None:
        """Enable or disable the noise, bias, resolution, rate and delay of the files; disabled by default.

        Args:
            enabled: False removes all error parameters; default True.
            seed: random seed; default 0.
        """
        self._error_model.use_file_parameters(boolean(enabled, "use_file_error_model"), seed)

    @property
    def has_rate_or_delay(self) -> bool:
        """Whether any sensor has a sampling rate or a delay, so that every step must be observed."""
        return self._error_model.has_rate_or_delay

    def sample(self, *, restart: bool = False, envs: np.ndarray | None = None) -> None:
        """Sample the sensors with rate or delay after a step; see `SensorErrorModel.sample`."""
        self._error_model.sample(restart=restart, envs=envs)

    def _read_ideal(self) -> np.ndarray:
        """Ideal readings of all sensors, (n_envs, values), with the values of user sensors inserted."""
        if not self._info.n_values:
            return np.zeros((self._scene.built.n_envs, 0))
        readings = np.asarray(self._scene.built.engine.fields.sensors.sensordata.numpy()).T
        if self._user_values is None:
            return readings
        return np.where(np.isnan(self._user_values), readings, self._user_values)

    def _readings(self, envs_idx: Any) -> np.ndarray:
        envs = resolve_envs(envs_idx, self._scene.built.n_envs)
        readings = self._error_model.measurements()
        return readings if envs is None else readings[envs]

    def _set_user_values(self, columns: slice, values: Any, envs_idx: Any) -> None:
        """Store the data of a sensor of type `user`, (dim,) or (environments, dim), which has the given columns."""
        n_envs = self._scene.built.n_envs
        if self._user_values is None:
            self._user_values = np.full((n_envs, self._info.n_values), np.nan)
        envs = resolve_envs(envs_idx, n_envs)
        rows = np.arange(n_envs) if envs is None else envs
        array = as_array(values, np.float64, "write")
        try:
            self._user_values[rows, columns] = np.broadcast_to(array, (len(rows), columns.stop - columns.start))
        except ValueError:
            width = columns.stop - columns.start
            raise KinemaError(f"write: expected values of shape ({width},), not {array.shape}") from None
        self._scene.built.engine.mark_modified()
