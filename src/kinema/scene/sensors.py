"""Sensors by name, their readings, and their error model: noise, bias, quantization, sampling rate and delay.

Ideal readings are computed by the engine in one launch when they are first read after a step; errors are added on the
host.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from kinema.core import Array, KinemaError
from kinema.dynamics import Engine
from kinema.model import SensorsInfo

from .arguments import as_array, boolean, resolve_envs
from .built_scene import HasBuiltScene

# ---------------------------------------------------------------------------------------------- error model

TIME_TOLERANCE = 1e-9
"""Tolerance of time comparisons [s]."""
VALUE_PARAMETERS = ("noise", "bias", "bias_std", "resolution")
"""Error parameters of each value."""
SENSOR_PARAMETERS = ("rate", "delay")
"""Error parameters of each sensor."""


def error_parameter(parameter: str, value: Any, label: str) -> Array:
    """Value of an error parameter as an array; `KinemaError`, prefixed with `label`, unless finite and in range.

    All parameters but `bias` are at least 0.
    """
    array = as_array(value, np.float64, label)
    if not np.isfinite(array).all() or (parameter != "bias" and (array < 0).any()):
        allowed = "is finite" if parameter == "bias" else "is at least 0"
        raise KinemaError(f"{label} is not {value!r}: it {allowed}")
    return array


class SensorErrorModel:
    """Error model of all sensors of a scene: bias, Gaussian noise, quantization, sampling rate and delay.

    Noise is drawn once per step and depends on seed and step count only; biases are drawn once per environment. Sensors
    with a rate or delay keep a history of time-stamped measurements.
    """

    def __init__(self, scene: HasBuiltScene, read_ideal: Callable[[], np.ndarray]) -> None:
        self._scene, self._read_ideal = scene, read_ideal
        self._seed = 0
        self._reset_parameters()

    @property
    def _info(self) -> SensorsInfo:
        return self._scene.built.model.sensors

    @property
    def is_ideal(self) -> bool:
        """Whether readings are ideal: no noise, bias, quantization, rate or delay."""
        parameters = (self.noise, self.bias, self.bias_std, self.resolution, self.rate, self.delay)
        return not any(array.any() for array in parameters)

    def extend(self) -> None:
        """Append zero parameters for sensors that were added since; restarts the history of measurements."""
        n, m = self._info.n_values, len(self._info.names)
        for name, size in (*((x, n) for x in VALUE_PARAMETERS), *((x, m) for x in SENSOR_PARAMETERS)):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros(size - len(array))]))
        self._bias_per_env, self._cached_measurement = None, None
        self._history.clear()

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
            array = error_parameter(parameter, value, f'set_error_model: the {parameter} of sensor "{name}"')
            if parameter in SENSOR_PARAMETERS:
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
        """Add constant bias and Gaussian noise to ideal sensor data (n_envs, values), and round to the resolution.

        Noise depends only on the seed and the step count: repeated reads within a step return the same noise.
        """
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

ERROR_PARAMETERS = (*VALUE_PARAMETERS, *SENSOR_PARAMETERS)
"""Parameters of `Sensor.set_error_model`."""


AddedErrorModel = Mapping[str | None, Mapping[str, Any]]
"""Error parameters of an added sensor by component (None for all), as arguments of `Sensor.set_error_model`."""


class HasSensors(Protocol):
    """Interface of the step observers for handles of sensors, which look up the sensors at each use."""

    @property
    def sensors(self) -> Sensors:
        """Sensors of the scene; raises `KinemaError` before build."""
        ...

    @property
    def is_built(self) -> bool:
        """Whether the scene is built."""
        ...


class Sensor:
    """One sensor of a scene; `read()` returns its current reading."""

    def __init__(self, owner: HasSensors, index: int, *, is_added: bool = False) -> None:
        """Handle of the sensor with an index among the sensors of the files, or among the added sensors."""
        self._owner, self._position, self._is_added = owner, index, is_added

    def __repr__(self) -> str:
        if not self._owner.is_built:
            return "<Sensor: readable after scene.build()>"
        return f"<Sensor {self.name}: {self.kind}, {self.dim} values>"

    @property
    def _sensors(self) -> Sensors:
        return self._owner.sensors

    @property
    def _index(self) -> int:
        return self._position + (self._sensors.n_of_files if self._is_added else 0)

    @property
    def name(self) -> str:
        """Name of the sensor in `scene.sensors`."""
        return self._sensors._info.names[self._index]

    @property
    def kind(self) -> str:
        """Sensor type of its file (`gyro`, `imu`, `lidar`, ...), or of the added sensor."""
        return self._sensors._info.kinds[self._index]

    @property
    def components(self) -> dict[str, tuple[int, int]]:
        """First and last (exclusive) column of each component of a composite sensor such as an IMU, by name."""
        return dict(self._sensors._info.channels[self._index])

    @property
    def _columns(self) -> slice:
        info = self._sensors._info
        return slice(int(info.start[self._index]), int(info.end[self._index]))

    @property
    def dim(self) -> int:
        """Number of values of a reading."""
        return self._columns.stop - self._columns.start

    def read(self, component: str | None = None, envs_idx: Any = None) -> Any:
        """Current reading, (n_envs, dim), in the SI unit of the sensor type; NumPy or PyTorch as the scene's getters.

        Args:
            component: one of `components`, such as `angular_velocity` of an IMU; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._sensors._read(self._component_columns(component), envs_idx)

    def read_geodetic(self, envs_idx: Any = None) -> np.ndarray:
        """Latitude and longitude [deg] and height [m] on the WGS 84 ellipsoid of a GPS, (n_envs, 3), in float64.

        Args:
            envs_idx: environments by index, slice or mask; None for all.
        """
        info = self._sensors._info
        if "position" not in self.components or self.kind not in NAVSAT_KINDS:
            raise KinemaError(f'read_geodetic: sensor "{self.name}" is a {self.kind}, not a GPS')
        output = int(np.searchsorted(info.outputs.start, self._columns.start))
        position = self._sensors._readings(envs_idx)[:, self._component_columns("position")]
        return geodetic_coordinates(np.asarray(position, np.float64), info.outputs.params[output][:3])

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


NAVSAT_KINDS = ("gps", "navsat")
"""Sensor types of satellite navigation receivers."""
WGS84_RADIUS, WGS84_FLATTENING = 6378137.0, 1.0 / 298.257223563
"""Equatorial radius [m] and flattening of the WGS 84 ellipsoid."""


def geodetic_coordinates(position: Array, origin: Sequence[float]) -> Array:
    """Geodetic latitude and longitude [deg] and height [m] (WGS 84) of points given along east, north, up.

    The points are converted to geocentric coordinates; the latitude follows by fixed-point iteration (Bowring).

    Args:
        position: east, north and up from the origin [m], (n, 3).
        origin: latitude and longitude [deg] and height [m] of the origin.
    """
    e2 = WGS84_FLATTENING * (2.0 - WGS84_FLATTENING)
    latitude, longitude = np.radians(origin[0]), np.radians(origin[1])
    sin_lat, cos_lat, sin_lon, cos_lon = np.sin(latitude), np.cos(latitude), np.sin(longitude), np.cos(longitude)
    normal_radius = WGS84_RADIUS / np.sqrt(1.0 - e2 * sin_lat**2)
    axes = np.array(
        [
            [-sin_lon, cos_lon, 0.0],
            [-sin_lat * cos_lon, -sin_lat * sin_lon, cos_lat],
            [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat],
        ]
    )
    center = np.array([0.0, 0.0, -e2 * normal_radius * sin_lat])
    x, y, z = (center + (normal_radius + origin[2]) * axes[2] + position @ axes).T
    p, b = np.hypot(x, y), WGS84_RADIUS * (1.0 - WGS84_FLATTENING)
    beta = np.arctan2(z, (1.0 - WGS84_FLATTENING) * p)
    phi = beta
    for _ in range(4):  # each iteration gains about five digits
        phi = np.arctan2(z + e2 / (1.0 - e2) * b * np.sin(beta) ** 3, p - e2 * WGS84_RADIUS * np.cos(beta) ** 3)
        beta = np.arctan2((1.0 - WGS84_FLATTENING) * np.sin(phi), np.cos(phi))
    radius = WGS84_RADIUS / np.sqrt(1.0 - e2 * np.sin(phi) ** 2)
    height = p * np.cos(phi) + z * np.sin(phi) - WGS84_RADIUS**2 / radius
    return np.stack([np.degrees(phi), np.degrees(np.arctan2(y, x)), height], axis=-1)


class Sensors(Mapping[str, Sensor]):
    """All sensors of a scene by name, sensors of files first, then added sensors: `scene.sensors["imu"].read()`.

    Readings belong to the current state, as in MuJoCo after `mj_forward`; they are computed in one launch when they are
    first read after a step.
    """

    def __init__(self, scene: HasBuiltScene, added: Sequence[AddedErrorModel] = ()) -> None:
        """Sensors of a built scene, with the error parameters of added sensors."""
        self._scene = scene
        self._added: list[AddedErrorModel] = []
        self._user_values: Array | None = None
        self._error_model = SensorErrorModel(scene, self._read_ideal)
        self.extend(added)

    def extend(self, added: Sequence[AddedErrorModel]) -> None:
        """Take account of the sensors that the scene was built with anew, and set their error parameters."""
        self._by_name = {name: i for i, name in enumerate(self._info.names)}
        self._error_model.extend()
        if self._user_values is not None:
            missing = np.full((len(self._user_values), self._info.n_values - self._user_values.shape[1]), np.nan)
            self._user_values = np.concatenate([self._user_values, missing], axis=1)
        first, self._added = len(self._added), [*self._added, *added]
        self._set_added_error_models(first)

    def _set_added_error_models(self, first: int) -> None:
        """Set the error parameters of the added sensors, from a position on, by component."""
        for i, parameters in enumerate(self._added[first:], start=first):
            sensor = Sensor(self, i, is_added=True)
            for component, values in parameters.items():
                sensor.set_error_model(component, **values)

    @property
    def sensors(self) -> Sensors:
        """These sensors: the owner of their handles."""
        return self

    @property
    def is_built(self) -> bool:
        """True: sensors are looked up in built scenes."""
        return True

    @property
    def n_of_files(self) -> int:
        """Number of sensors of the files, which come first."""
        return len(self._info.names) - len(self._added)

    @property
    def _info(self) -> SensorsInfo:
        return self._scene.built.model.sensors

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

    def get(self, key: object, default: Any = None, /) -> Any:
        """Sensor with a name, or a default if there is none."""
        return self[str(key)] if key in self else default

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
            enabled: False removes all error parameters but those that sensors were added with; default True.
            seed: random seed; default 0.
        """
        self._error_model.use_file_parameters(boolean(enabled, "use_file_error_model"), seed)
        self._set_added_error_models(0)

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

    def _read(self, columns: slice, envs_idx: Any) -> Any:
        """Readings of the given columns in the selected environments in the output type of the scene."""
        outputs = self._scene.built.outputs
        if self._error_model.is_ideal and self._user_values is None and columns.stop > columns.start:
            source = self._scene.built.engine.fields.sensors.sensordata
            return outputs.select(source, columns, outputs.resolve_envs(envs_idx))
        return outputs.convert_owned(np.array(self._readings(envs_idx)[:, columns]))

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
