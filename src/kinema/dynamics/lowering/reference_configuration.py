"""Model constants at reference configurations: joint inertias, transmission and rest lengths, peak muscle forces."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from kinema.core import Array, reproducible_norm, reproducible_solve, sine_cosine
from kinema.ir import ArenaOffset, LoopIteration
from kinema.model import Model, PrimitiveJointType

from ..arrays import ElementKind
from ..extensions import has_external_extensions
from ..pipeline import compute
from ..rigid.aba import write_joint_inertias
from ..rigid.integrators import integrate_coordinates
from ..rigid.kinematics import poses_in_parents
from ..settings import Settings
from ..step import StepData
from ..tree.kinematic_tree import build_tree
from ..tree.trace_context import TraceContext
from .inertia_check import MIN_INERTIA_RATIO, MassMatrixConditioning
from .program_tracing import interpret_outputs


def compute_mass_matrix_conditioning(
    model: Model, *configurations: Sequence[float] | Array, frames: Sequence[int] | None = None
) -> list[MassMatrixConditioning]:
    """Diagonal and pivots of the mass matrix at each given configuration, by interpreting a traced program.

    `frames` are the frames of the trees that they are computed for; None for all.
    """

    def trace(ctx: TraceContext) -> None:
        write_joint_inertias(ctx, poses_in_parents(ctx), MIN_INERTIA_RATIO)

    outputs = {"locked_inertia": (ElementKind.DOF, 1), "free_inertia": (ElementKind.DOF, 1)}
    results = interpret_outputs(
        model, Settings(), trace, outputs, *({"qpos": q} for q in configurations), frames=frames
    )
    return [
        MassMatrixConditioning(arrays["locked_inertia"].tolist(), arrays["free_inertia"].tolist()) for arrays in results
    ]


def with_muscle_peak_forces(model: Model) -> Model:
    """Model with derived muscle peak forces: scales divided by acc0, the norm of M^-1 moment of a unit force at qpos0.

    Entries of `ActuatorsInfo.peak_force` that are not marked in `peak_force_needs_acc0` are forces already.
    """
    actuators, n = model.actuators, model.n_dofs
    is_open = actuators.peak_force_needs_acc0.any(axis=1)
    if not n or not is_open.any():
        return model

    def trace(ctx: TraceContext) -> None:
        step = StepData(ctx)
        compute(step, "mass_matrix")
        step.mass_matrix.store("inertia")

    arrays = {"qpos": model.qpos0, "vel": np.zeros(n)}
    flat_inertia = interpret_outputs(model, Settings(), trace, {"inertia": (ElementKind.DOF, n)}, arrays)[0]["inertia"]
    _, path_moments = path_lengths_and_moments(model, model.qpos0)
    inertia = np.concatenate([flat_inertia, np.zeros(n * n)])[: n * n].reshape(n, n)
    peak_force = actuators.peak_force.copy()
    for a in np.flatnonzero(is_open):
        path = int(actuators.path_idx[a])
        moment = actuators.moment[a] * (path_moments[path] if path >= 0 else 1.0)
        acceleration = reproducible_norm(reproducible_solve(inertia, moment[:, None]))
        peak_force[a, actuators.peak_force_needs_acc0[a]] /= max(acceleration, MIN_VALUE)
    return model.with_derived(actuator_peak_force=peak_force)


MIN_VALUE = 1e-15
"""Lower bound of inverse inertias and accelerations used as divisors (MuJoCo's mjMINVAL)."""


_recent_paths: deque[tuple[list[Any], bytes, tuple[Array, Array]]] = deque(maxlen=4)
"""Tables of a model, a configuration, and the lengths and moment arms there: one start asks for them several times."""


def path_lengths_and_moments(model: Model, qpos: Sequence[float] | Array) -> tuple[Array, Array]:
    """Lengths (n_paths,) [m] and moment arms (n_paths, n_dofs) of all transmission paths at a configuration.

    The latest results are kept; the arrays are read-only.
    """
    tables = [getattr(model, field.name) for field in fields(model) if field.name != "derived"]
    if has_external_extensions():  # which may change while the tables do not
        return _compute_path_lengths_and_moments(model, qpos)
    configuration = np.asarray(qpos, dtype=np.float64).tobytes()
    for known, at, found in tuple(_recent_paths):
        if at == configuration and all(a is b for a, b in zip(known, tables, strict=True)):
            return found
    found = _compute_path_lengths_and_moments(model, qpos)
    for array in found:
        array.setflags(write=False)
    _recent_paths.append((tables, configuration, found))
    return found


def _compute_path_lengths_and_moments(model: Model, qpos: Sequence[float] | Array) -> tuple[Array, Array]:
    n_paths, n = 1 + max(model.path_segments.path_idx.tolist(), default=-1), model.n_dofs
    if not n_paths:
        return np.zeros(0), np.zeros((0, n))
    outputs = {"lengths": (ElementKind.ENVIRONMENT, n_paths), "moments": (ElementKind.DOF, n_paths)}

    def trace(ctx: TraceContext) -> None:
        step = StepData(ctx)
        compute(step, "path_lengths")
        found = step.path_lengths
        rows = [LoopIteration("length", {"of": x, "to": ArenaOffset("lengths", i)}) for i, x in found.lengths.items()]
        for i, moment in found.moments.items():
            rows += [
                LoopIteration("moment", {"of": x, "to": ArenaOffset("moments", i * n + d)}) for d, x in moment.items()
            ]
        ctx.for_each("path lengths and moments", rows, lambda iteration: iteration.write("to", [iteration.read("of")]))

    (found,) = interpret_outputs(model, Settings(), trace, outputs, {"qpos": qpos})
    lengths, moments = (np.resize(np.append(x, np.zeros(n_paths * n + 1)), n_paths * max(n, 1)) for x in found.values())
    return lengths[:n_paths], moments[: n_paths * n].reshape(n_paths, n)  # ty: ignore[invalid-explicit-return]


def with_rest_lengths(model: Model) -> Model:
    """Model with derived rest lengths of tendon springs and reference lengths of couplings where the tables have NaN.

    A tendon spring rests at its length in the configuration where the joint springs are at rest; a coupling refers to
    the transmission path length at qpos0.
    """
    tendons, couplings, found = model.tendons, model.couplings, dict[str, Array]()
    for side, reference, paths in (
        ("a", couplings.reference_a, couplings.path_a),
        ("b", couplings.reference_b, couplings.path_b),
    ):
        if np.isnan(reference).any():
            lengths, _ = path_lengths_and_moments(model, model.qpos0)
            found[f"coupling_reference_{side}"] = np.where(np.isnan(reference), lengths[paths], reference)
    unknown = np.isnan(tendons.rest_lower)
    if unknown.any():
        lengths, _ = path_lengths_and_moments(model, _spring_rest_configuration(model))
        found["tendon_rest_lower"] = np.where(unknown, lengths[tendons.path_idx], tendons.rest_lower)
        found["tendon_rest_upper"] = np.where(unknown, lengths[tendons.path_idx], tendons.rest_upper)
    return model.with_derived(**found) if found else model


def _spring_rest_configuration(model: Model) -> Array:
    """Configuration (n_qs,) in which the joint springs are at rest; free joints stay at qpos0."""
    q, frames, joints = model.qpos0.copy(), model.frames, model.joints
    single = model.dofs.q_idx >= 0
    q[model.dofs.q_idx[single]] = model.dofs.spring_ref[single]
    for frame in np.flatnonzero(frames.joint_type == PrimitiveJointType.BALL):
        start = int(frames.q_start[frame])
        q[start : start + 4] = frames.spring_quat[frame]
    for i in (i for i, kind in enumerate(joints.kinds) if kind == "free"):
        q_range = slice(joints.q_start[i], joints.q_end[i])
        q[q_range] = model.qpos0[q_range]
    return q


def reference_link_poses(model: Model) -> tuple[Array, Array]:
    """World positions [m] (n_links, 3) and quaternions (w, x, y, z) (n_links, 4) of all links at qpos0."""
    from ..queries.field_groups import write_pose_fields  # needs all sensors

    n_links = model.n_links
    outputs = {
        f"{prefix}{name}": (ElementKind.LINK, width)
        for prefix in ("", "j_")
        for name, width in (("pos", 3), ("quat", 4))
    }
    (found,) = interpret_outputs(
        model, Settings(), lambda ctx: write_pose_fields(StepData(ctx)), outputs, {"qpos": model.qpos0}
    )
    return found["pos"].reshape(n_links, 3), found["quat"].reshape(n_links, 4)


def perturbed_configuration(model: Model, frames: Sequence[int] | None = None) -> list[float]:
    """Configuration near qpos0 in which no joint axes are parallel by coincidence (deterministic perturbation).

    `frames` are the frames that are moved; None for all.
    """
    shift = [0.4 * sine_cosine(1.7 * i + 0.3)[1] for i in range(model.n_dofs)]
    q = [float(x) for x in model.qpos0]
    nodes = build_tree(model).nodes
    for node in nodes if frames is None else [nodes[frame] for frame in frames]:
        coordinates = integrate_coordinates(node, [q[i] for i in node.qs], [shift[d] for d in node.dofs])
        for i, x in zip(node.qs, coordinates, strict=True):
            q[i] = float(x)  # type: ignore[arg-type]
    return q
