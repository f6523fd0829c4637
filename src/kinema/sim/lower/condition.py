"""Whether a model can be moved at all: the inertia that each degree of freedom is left with, in plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kinema.foundation import Array
from kinema.model import Model, Motion
from kinema.trace import Place, Row

from ..arrays import Owner
from ..force.paths import lengths_of
from ..force.rotors import mass_with_rotors
from ..rigid.aba import remaining_inertias
from ..rigid.integrate import advance
from ..rigid.kinematics import poses_in_parents
from ..settings import Settings
from ..step import Step
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import grow
from .inertias import NONE_LEFT, Inertias
from .programs import plain_numbers


def dof_inertias(model: Model, *configurations: Sequence[float] | Array) -> list[Inertias]:
    """Of the model's mass matrix at some configurations."""

    def run(s: Sweeps) -> None:
        remaining_inertias(s, poses_in_parents(s), NONE_LEFT)

    outputs = {"entire": (Owner.DOF, 1), "left": (Owner.DOF, 1)}
    found = plain_numbers(model, Settings(), run, outputs, *({"qpos": q} for q in configurations))
    return [Inertias(own["entire"].tolist(), own["left"].tolist()) for own in found]


def weigh_muscles(model: Model) -> None:
    """The peak forces of muscles that are given by how much a unit force accelerates the joints at the start."""
    actuators, n = model.actuators, model.n_dofs
    open_ = actuators.per_acceleration.any(axis=1)
    if not n or not open_.any():
        return

    def run(s: Sweeps) -> None:
        mass_with_rotors(Step(s)).store("inertia")

    arrays = {"qpos": model.qpos0, "vel": np.zeros(n)}
    found = plain_numbers(model, Settings(), run, {"inertia": (Owner.DOF, n)}, arrays)[0]["inertia"]
    _, paths = measured(model, model.qpos0)
    inertia = np.concatenate([found, np.zeros(n * n)])[: n * n].reshape(n, n)
    for a in np.flatnonzero(open_):
        path = int(actuators.path_idx[a])
        moment = actuators.moment[a] * (paths[path] if path >= 0 else 1.0)
        acceleration = float(np.linalg.norm(np.linalg.solve(inertia, moment)))
        actuators.peak_force[a, actuators.per_acceleration[a]] /= max(acceleration, SMALLEST)
    actuators.per_acceleration[:] = False


SMALLEST = 1e-15


def measured(model: Model, q: Sequence[float] | Array) -> tuple[Array, Array]:
    """The lengths of all paths at a configuration, and their moments, (paths, dofs)."""
    count, n = 1 + max(model.paths.path_idx.tolist(), default=-1), model.n_dofs
    if not count:
        return np.zeros(0), np.zeros((0, n))
    outputs = {"lengths": (Owner.ENVIRONMENT, count), "moments": (Owner.DOF, count)}

    def run(s: Sweeps) -> None:
        found = lengths_of(Step(s))
        rows = [Row("length", {"of": x, "to": Place("lengths", i)}) for i, x in found.lengths.items()]
        for i, moment in found.moments.items():
            rows += [Row("moment", {"of": x, "to": Place("moments", i * n + d)}) for d, x in moment.items()]
        s.loop("paths, stored", rows, lambda code: code.write("to", [code.read("of")]))

    (found,) = plain_numbers(model, Settings(), run, outputs, {"qpos": q})
    lengths, moments = (np.resize(np.append(x, np.zeros(count * n + 1)), count * max(n, 1)) for x in found.values())
    return lengths[:count], moments[: count * n].reshape(count, n)  # ty: ignore[invalid-explicit-return]


def find_rest_lengths(model: Model) -> None:
    """Of springs in tendons along paths that rest where the joints' springs do; of couplings what counts as zero."""
    tendons, couplings = model.tendons, model.couplings
    for zero, path in ((couplings.reference_a, couplings.path_a), (couplings.reference_b, couplings.path_b)):
        open_ = np.flatnonzero(np.isnan(zero))
        if len(open_):
            zero[open_] = measured(model, model.qpos0)[0][path[open_]]
    unknown = np.flatnonzero(np.isnan(tendons.rest_lower))
    if len(unknown):
        lengths, _ = measured(model, _resting(model))
        tendons.rest_lower[unknown] = tendons.rest_upper[unknown] = lengths[tendons.path_idx[unknown]]


def _resting(model: Model) -> Array:
    """Where the springs of joints are at rest; free joints where they start."""
    q, frames, joints = model.qpos0.copy(), model.frames, model.joints
    single = model.dofs.q_idx >= 0
    q[model.dofs.q_idx[single]] = model.dofs.spring_ref[single]
    for frame in np.flatnonzero(frames.motion == Motion.BALL):
        start = int(frames.q_start[frame])
        q[start : start + 4] = frames.spring_quat[frame]
    for i in (i for i, kind in enumerate(joints.kinds) if kind == "free"):
        own = slice(joints.q_start[i], joints.q_end[i])
        q[own] = model.qpos0[own]
    return q


def perturbed(model: Model) -> list[float]:
    """A configuration near the start, in which no two axes are parallel by chance."""
    shift = [0.4 * math.cos(1.7 * i + 0.3) for i in range(model.n_dofs)]
    q = [float(x) for x in model.qpos0]
    for node in grow(model).nodes:
        own = advance(node, [q[i] for i in node.qs], [shift[d] for d in node.dofs])
        for i, x in zip(node.qs, own, strict=True):
            q[i] = float(x)  # type: ignore[arg-type]
    return q
