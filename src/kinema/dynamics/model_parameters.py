"""Physical parameters of a model by name: present values, and the model with other values.

A parameter is an array of values, such as the masses of all links, from which tables of a model follow. Gradients of
trajectories are taken by these parameters (`engine/parameter_inputs.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kinema.core import Array, KinemaError, symmetric_eigen
from kinema.model import ABSENT_RADIUS, Model, PairsInfo

from .placement import (
    geom_positions,
    geom_quaternions,
    joint_axes,
    joint_positions,
    jointed_links,
    joints_with_anchor,
    joints_with_axis,
    link_positions,
    link_quaternions,
    with_geom_positions,
    with_geom_quaternions,
    with_joint_axes,
    with_joint_positions,
    with_link_positions,
    with_link_quaternions,
)
from .topology import WORLD

Mask = npt.NDArray[np.bool_]

# ---------------------------------------------------------------------------------------- contact parameters of pairs

ABSENT_VALUE = 1e100
"""Magnitude from which on a value stands for none, such as the limit of an unlimited joint."""
MIN_FRICTION = 1e-5
"""Lower bound of friction coefficients that are set: the solver divides by them."""
FROM_A, FROM_B, EXPLICIT = 0, 1, 2
"""Sources of the contact parameters of a pair (`PairsInfo.surface_source`): geom a, geom b, the pair itself."""


def combined_pair_values(pairs: PairsInfo, name: str, of_geoms: Array) -> Array:
    """Friction, solref or solimp of all geom pairs, (..., n_pairs, k), from those of geoms, (..., n_geoms, k).

    As in MuJoCo, those of the geom with higher priority, or of an explicit pair. Otherwise the larger friction, and the
    mean of solref and solimp weighted by solmix; the componentwise minimum if a solref has the direct (non-positive)
    format.
    """
    a, b = of_geoms[..., pairs.geom_a, :], of_geoms[..., pairs.geom_b, :]
    if name == "friction":
        combined = np.maximum(a, b)
    else:
        weight = pairs.solmix_weight[:, None]
        combined = weight * a + (1.0 - weight) * b
        if name == "solref":
            direct = (a[..., :1] <= 0.0) | (b[..., :1] <= 0.0)
            combined = np.where(direct, np.minimum(a, b), combined)
    source = pairs.surface_source[:, None]
    explicit = np.broadcast_to(getattr(pairs, name), a.shape)
    return np.select([source == FROM_A, source == FROM_B, source == EXPLICIT], [a, b, explicit], combined)


# --------------------------------------------------------------------------------------------------------- definition


@dataclass(frozen=True, slots=True)
class ModelParameter:
    """A physical parameter: its values in a model, and the model with other values."""

    read: Callable[[Model], Array]
    """Values, (n, ...) in the order of the model."""
    write: Callable[[Model, Array], Model]
    """The model with other values; constants derived from its tables are still to be computed."""
    is_variable: Callable[[Model], Mask]
    """Values that may change without other code, in the shape of the values, or of its first axes."""
    scale: Callable[[Model], Array | float]
    """Typical magnitude of the values, by which step sizes of differences are chosen."""
    changes_inertia: bool = False
    """Whether inverse inertias at qpos0 (`DerivedConstants.dof_invweight`, ...) depend on the parameter."""
    changes_geometry: bool = False
    """Whether lengths of paths or sizes of geoms depend on the parameter, from which constants follow."""
    overridden_by: tuple[str, ...] = ()
    """Later parameters that set values which this one sets too."""
    perturbs_rows: bool = False
    """Whether `perturbed` adds the same to all values of a row, on the differences of which code depends."""

    def variable_entries(self, model: Model) -> Mask:
        """Mask of the values that may change, in the shape of the values."""
        values, mask = self.read(model), self.is_variable(model)
        return (np.abs(values) < ABSENT_VALUE) & np.broadcast_to(
            mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim)), values.shape
        )

    def steps(self, model: Model, values: Array) -> Array:
        """Typical magnitudes of values, in their shape: those of the values themselves, at least `scale`."""
        finite = np.where(np.abs(values) < ABSENT_VALUE, np.abs(values), 0.0)
        return np.maximum(finite, np.broadcast_to(self.scale(model), values.shape))

    def perturbed(self, model: Model, generator: np.random.Generator) -> Model:
        """The model with random values near the present ones, none of which is zero where it may change."""
        values = self.read(model)
        change = generator.uniform(0.02, 0.1, values.shape) * self.steps(model, values)
        if self.perturbs_rows:
            change[...] = change.max(axis=-1, keepdims=True)
        return self.write(model, np.where(self.variable_entries(model), values + change, values))


def _largest(values: Array, default: float) -> float:
    """Largest finite magnitude, or a default if all are zero."""
    finite = np.abs(values[np.abs(values) < ABSENT_VALUE])
    return float(finite.max(initial=0.0)) or default


# -------------------------------------------------------------------------------------------------------------- links


def _moving_links(model: Model) -> Mask:
    frames = model.links.frame_idx
    return (frames != WORLD) & ~np.isin(frames, model.kinematic_frames)


def _with_mass(model: Model, mass: Array) -> Model:
    """Model with other masses; the rotational inertia of a link is proportional to its mass."""
    links = model.links
    ratio = np.divide(mass, links.inertial_mass, out=np.ones_like(mass), where=links.inertial_mass != 0.0)
    return model.with_columns("links", inertial_mass=mass, inertial_i=links.inertial_i * ratio[:, None, None])


INERTIA_ENTRIES = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
"""Entries of an inertia matrix in the order of MuJoCo's `fullinertia`: xx, yy, zz, xy, xz, yz."""


def _inertia(model: Model) -> Array:
    rows, columns = np.array(INERTIA_ENTRIES).T
    return model.links.inertial_i[:, rows, columns]


def _with_inertia(model: Model, inertia: Array) -> Model:
    matrices = np.zeros((len(inertia), 3, 3))
    for k, (i, j) in enumerate(INERTIA_ENTRIES):
        matrices[:, i, j] = matrices[:, j, i] = inertia[:, k]
    return model.with_columns("links", inertial_i=matrices)


def _inertia_scale(model: Model) -> Array:
    """Smallest principal moment of each link's inertia, at least a thousandth of the largest inertia of any link."""
    smallest = np.array([symmetric_eigen(x)[0][0] for x in model.links.inertial_i])
    return np.maximum(smallest, 1e-3 * _largest(model.links.inertial_i, 1.0))[:, None]


def _links_column(name: str) -> Callable[[Model], Array]:
    return lambda model: getattr(model.links, name)


# --------------------------------------------------------------------------------------------------------------- dofs


def _joint_dofs(model: Model) -> Mask:
    """Dofs of all joints but free ones."""
    mask = np.ones(model.n_dofs, np.bool_)
    for i, kind in enumerate(model.joints.kinds):
        if kind == "free":
            mask[model.joints.dof_start[i] : model.joints.dof_end[i]] = False
    return mask


def _dof_parameter(
    name: str, is_variable: Callable[[Model], Mask] | None = None, scale: Callable[[Model], Array | float] | None = None
) -> ModelParameter:
    """Parameter that is a column of the table of dofs."""
    return ModelParameter(
        read=lambda model: getattr(model.dofs, name),
        write=lambda model, values: model.with_columns("dofs", **{name: values}),
        is_variable=is_variable or (lambda model: np.ones(model.n_dofs, np.bool_)),
        scale=scale or (lambda model: _largest(getattr(model.dofs, name), 1.0)),
    )


def _sprung_dofs(model: Model) -> Mask:
    """Dofs of joints that are not free, and others with a spring."""
    return _joint_dofs(model) | (model.dofs.stiffness != 0.0)


def _dry_dofs(model: Model) -> Mask:
    """Dofs of joints that are not free, and others with dry friction."""
    return _joint_dofs(model) | (model.dofs.frictionloss != 0.0)


def _armature_scale(model: Model) -> Array:
    """Inertia of each dof at qpos0, if known, at most 0.01."""
    return np.minimum(1.0 / np.maximum(model.derived.dof_invweight, 1e-15), 0.01)


# ---------------------------------------------------------------------------------------------------------- actuators


def _gear(model: Model) -> Array:
    """Moment arm of each actuator that acts on a single joint, 1 for all others."""
    actuators, result = model.actuators, np.ones(model.n_actuators)
    for i in np.flatnonzero(actuators.on_joint):
        arms = actuators.moment[i][actuators.moment[i] != 0.0]
        if len(arms) == 1 and actuators.path_idx[i] < 0:
            result[i] = arms[0]
    return result


def _with_gear(model: Model, gear: Array) -> Model:
    actuators, ratio = model.actuators, gear / _gear(model)
    columns = {name: getattr(actuators, name) * ratio[:, None] for name in ("moment", "frame_torque", "frame_force")}
    return model.with_columns("actuators", **columns, length_per_radian=actuators.length_per_radian * ratio)


def _affine_actuators(model: Model) -> Mask:
    return np.array([kind in ("affine", "muscle gain", "muscle bias") for kind in model.actuators.kinds], np.bool_)


def _actuator_parameter(name: str) -> ModelParameter:
    """Gain or bias parameters of actuators, (n_actuators, 3)."""
    return ModelParameter(
        read=lambda model: getattr(model.actuators, name),
        write=lambda model, values: model.with_columns("actuators", **{name: values}),
        is_variable=_affine_actuators,
        scale=lambda model: _largest(getattr(model.actuators, name), 1.0),
    )


def _position_servos(model: Model) -> Mask:
    """Actuators with the force kp (u - l) - kv l'."""
    gain, bias = model.actuators.gain, model.actuators.bias
    is_plain = (gain[:, 1:] == 0.0).all(axis=1) & (bias[:, 0] == 0.0) & (gain[:, 0] == -bias[:, 1])
    return _affine_actuators(model) & is_plain & (gain[:, 0] != 0.0)


def _with_actuator_kp(model: Model, kp: Array) -> Model:
    gain, bias, servo = np.array(model.actuators.gain), np.array(model.actuators.bias), _position_servos(model)
    gain[servo, 0], bias[servo, 1] = kp[servo], -kp[servo]
    return model.with_columns("actuators", gain=gain, bias=bias)


def _with_actuator_kv(model: Model, kv: Array) -> Model:
    bias, servo = np.array(model.actuators.bias), _position_servos(model)
    bias[servo, 2] = -kv[servo]
    return model.with_columns("actuators", bias=bias)


# -------------------------------------------------------------------------------------------------------------- geoms


def _all_geoms(model: Model) -> Mask:
    return model.geoms.radius != ABSENT_RADIUS


FRICTION_COLUMNS = (0, 2, 3)
"""Sliding, torsional and rolling friction in the columns of `GeomsInfo.friction`."""


def _with_geom_friction(model: Model, friction: Array) -> Model:
    values = np.maximum(friction, MIN_FRICTION)[:, [0, 0, 1, 2, 2]]
    model = model.with_columns("geoms", friction=values)
    return model.with_columns("pairs", friction=combined_pair_values(model.pairs, "friction", values))


N_SIZE_VALUES = {"sphere": 1, "capsule": 2, "cylinder": 2, "cone": 2, "ellipsoid": 3, "box": 3}
"""Number of size values of each geom type."""


def bounding_sphere_radius(geom_type: str, size: Array) -> Array:
    """Bounding sphere radius [m], (...), of a geom type for sizes (..., 3)."""
    if geom_type in ("cylinder", "cone"):
        return np.sqrt(size[..., 0] * size[..., 0] + size[..., 1] * size[..., 1])
    if geom_type == "ellipsoid":
        return size.max(axis=-1)
    return np.linalg.norm(size, axis=-1) if geom_type == "box" else size[..., 0] + size[..., 1]


def _has_size_value(model: Model) -> Mask:
    """Mask of the size values that geoms have, (n_geoms, 3)."""
    counts = np.array([N_SIZE_VALUES.get(x, 0) for x in model.geoms.types], np.intp)
    return (np.arange(3) < counts[:, None]) & (model.geoms.radius != ABSENT_RADIUS)[:, None]


def _with_geom_size(model: Model, size: Array) -> Model:
    radius, is_sized = np.array(model.geoms.radius), _has_size_value(model).any(axis=1)
    for i in np.flatnonzero(is_sized).tolist():
        radius[i] = bounding_sphere_radius(model.geoms.types[i], size[i])
    return model.with_columns("geoms", size=size, radius=radius)


# ----------------------------------------------------------------------------------------- soft-constraint parameters

SOL_PARAMS_SCALE = np.array([1e-2, 0.1, 0.1, 0.1, 1e-3, 0.1, 1.0])
"""Typical magnitudes of solref (2) and solimp (5)."""


def _sol_params(table: str, prefix: str = "") -> Callable[[Model], Array]:
    """Function that reads solref (2) and solimp (5) of the rows of a table, (n, 7)."""

    def read(model: Model) -> Array:
        columns = getattr(model, table)
        return np.concatenate([getattr(columns, f"{prefix}{name}") for name in ("solref", "solimp")], axis=1)

    return read


def _with_sol_params(table: str, prefix: str = "") -> Callable[[Model, Array], Model]:
    """Function that writes solref and solimp of the rows of a table."""
    names = f"{prefix}solref", f"{prefix}solimp"
    return lambda model, values: model.with_columns(
        table, **dict(zip(names, (values[:, :2].copy(), values[:, 2:].copy()), strict=True))
    )


def _with_geom_sol_params(model: Model, values: Array) -> Model:
    model = _with_sol_params("geoms")(model, values)
    columns = {x: combined_pair_values(model.pairs, x, getattr(model.geoms, x)) for x in ("solref", "solimp")}
    return model.with_columns("pairs", **columns)


def _sol_param_mask(has_constraint: Mask) -> Mask:
    """Mask of solref and solimp of rows with a constraint: all but the power of the impedance function, (n, 7)."""
    return has_constraint[:, None] & (np.arange(7) < 6)


def _limits(model: Model) -> Array:
    return np.stack([model.dofs.lower, model.dofs.upper], axis=1)


def _limit_mask(model: Model) -> Mask:
    """Mask of the finite limits of joints."""
    return np.isfinite(_limits(model))


def _soft_parameter(table: str, prefix: str, has_constraint: Callable[[Model], Mask]) -> ModelParameter:
    """Parameter of solref and solimp of constraints."""
    return ModelParameter(
        _sol_params(table, prefix),
        _with_sol_params(table, prefix),
        lambda model: _sol_param_mask(has_constraint(model)),
        lambda model: SOL_PARAMS_SCALE,
    )


def _tendon_parameter(name: str) -> ModelParameter:
    """Parameter that is a column of the table of tendons, of those where it is not zero."""
    return ModelParameter(
        lambda model: getattr(model.tendons, name),
        lambda model, values: model.with_columns("tendons", **{name: values}),
        lambda model: getattr(model.tendons, name) != 0.0,
        lambda model: _largest(getattr(model.tendons, name), 1.0),
    )


def _placement(
    read: Callable[[Model], Array],
    write: Callable[[Model, Array], Model],
    is_variable: Callable[[Model], Mask],
    scale: Callable[[Model], float],
) -> ModelParameter:
    """Parameter of the placement of links or joints."""
    return ModelParameter(read, write, is_variable, scale, changes_inertia=True, changes_geometry=True)


# ----------------------------------------------------------------------------------------------------------- registry

MODEL_PARAMETERS: dict[str, ModelParameter] = {
    "mass": ModelParameter(
        _links_column("inertial_mass"),
        _with_mass,
        _moving_links,
        lambda model: 1e-2 * _largest(model.links.inertial_mass, 1.0),
        changes_inertia=True,
        overridden_by=("inertia",),
    ),
    "com": ModelParameter(
        _links_column("inertial_pos"),
        lambda model, values: model.with_columns("links", inertial_pos=values),
        _moving_links,
        lambda model: max(_largest(model.links.inertial_pos, 0.1), 0.01),
        changes_inertia=True,
    ),
    "inertia": ModelParameter(_inertia, _with_inertia, _moving_links, _inertia_scale, changes_inertia=True),
    "armature": replace(_dof_parameter("armature", scale=_armature_scale), changes_inertia=True),
    "damping": _dof_parameter("damping"),
    "stiffness": _dof_parameter("stiffness", _sprung_dofs),
    "frictionloss": _dof_parameter("frictionloss", _dry_dofs),
    "kp": _dof_parameter("kp"),
    "kv": _dof_parameter("kv"),
    "gear": ModelParameter(
        _gear, _with_gear, lambda model: np.ones(model.n_actuators, np.bool_), lambda model: _largest(_gear(model), 1.0)
    ),
    "actuator_kp": ModelParameter(
        lambda model: np.where(_position_servos(model), model.actuators.gain[:, 0], 0.0),
        _with_actuator_kp,
        _position_servos,
        lambda model: _largest(model.actuators.gain, 1.0),
        overridden_by=("actuator_gain", "actuator_bias"),
    ),
    "actuator_kv": ModelParameter(
        lambda model: np.where(_position_servos(model), -model.actuators.bias[:, 2], 0.0),
        _with_actuator_kv,
        _position_servos,
        lambda model: _largest(model.actuators.bias, 1.0),
        overridden_by=("actuator_bias",),
    ),
    "actuator_gain": _actuator_parameter("gain"),
    "actuator_bias": _actuator_parameter("bias"),
    "gravity": ModelParameter(
        lambda model: model.gravity,
        lambda model, values: model.with_tables(gravity=values),
        lambda model: np.ones(3, np.bool_),
        lambda model: 10.0,
    ),
    "geom_friction": ModelParameter(
        lambda model: model.geoms.friction[:, FRICTION_COLUMNS],
        _with_geom_friction,
        _all_geoms,
        lambda model: np.array([0.1, 1e-3, 1e-5]),
    ),
    "geom_size": ModelParameter(
        lambda model: model.geoms.size,
        _with_geom_size,
        _has_size_value,
        lambda model: _largest(model.geoms.size, 0.1),
        changes_geometry=True,
    ),
    "geom_pos": ModelParameter(geom_positions, with_geom_positions, _all_geoms, lambda model: 0.1),
    "geom_quat": ModelParameter(geom_quaternions, with_geom_quaternions, _all_geoms, lambda model: 1.0),
    "geom_sol_params": ModelParameter(
        _sol_params("geoms"),
        _with_geom_sol_params,
        lambda model: _sol_param_mask(_all_geoms(model)),
        lambda model: SOL_PARAMS_SCALE,
    ),
    "limit": ModelParameter(
        _limits,
        lambda model, values: model.with_columns("dofs", lower=values[:, 0].copy(), upper=values[:, 1].copy()),
        _limit_mask,
        lambda model: 0.1,
        perturbs_rows=True,
    ),
    "limit_sol_params": _soft_parameter("dofs", "limit_", lambda model: np.asarray(_limit_mask(model).any(axis=1))),
    "friction_sol_params": _soft_parameter("dofs", "friction_", lambda model: model.dofs.frictionloss > 0.0),
    "equality_sol_params": _soft_parameter("equalities", "", lambda model: ~model.equalities.is_rigid),
    "tendon_stiffness": _tendon_parameter("stiffness"),
    "tendon_damping": _tendon_parameter("damping"),
    "tendon_frictionloss": _tendon_parameter("frictionloss"),
    "link_pos": _placement(link_positions, with_link_positions, jointed_links, lambda model: 0.1),
    "link_quat": _placement(link_quaternions, with_link_quaternions, jointed_links, lambda model: 1.0),
    "joint_pos": _placement(joint_positions, with_joint_positions, joints_with_anchor, lambda model: 0.1),
    "joint_axis": _placement(joint_axes, with_joint_axes, joints_with_axis, lambda model: 1.0),
}
"""Name -> parameter, in the order in which several parameters are applied to a model: general ones last, such as
`inertia` after `mass`."""


def find_parameter(name: str) -> ModelParameter:
    """Parameter of a name; `KinemaError` with all names if there is none."""
    if name not in MODEL_PARAMETERS:
        raise KinemaError(f"params: there is no parameter {name!r}; there are {', '.join(MODEL_PARAMETERS)}")
    return MODEL_PARAMETERS[name]
