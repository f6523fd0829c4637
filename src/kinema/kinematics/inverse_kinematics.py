"""Inverse kinematics of a model by link names and targets; one compiled program per set of goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError
from kinema.model import Model
from kinema.runtime import find_device

from .arguments import broadcast_length, resolve_index, validate_rows, validate_unit_rows
from .goals import AxisGoal, CenterOfMassGoal, Goal, LookAtGoal, OrientationGoal, PositionGoal
from .ik_program import IK_METHODS, CompiledIK, IKOptions, IKSolutions

ROTATION_WEIGHT = 0.1
"""Weight of squared orientation errors [rad2] relative to squared position errors [m2]."""


@dataclass(slots=True)
class _GoalTargets:
    """Goals and the target array of each."""

    goals: list[Goal]
    targets: list[Array]

    def add(self, goal: Goal, target: Array) -> None:
        self.goals.append(goal)
        self.targets.append(target)


class IKSolver:
    """Inverse kinematics of one model; a program is compiled for each distinct set of goals on first use."""

    def __init__(
        self, model: Model, device: str = "cpu", precision: str = "single", threads: int | None = None
    ) -> None:
        self.model = model
        self._device = find_device(device)
        self._precision = precision
        self._threads = threads
        self._compiled: dict[object, CompiledIK] = {}

    def solve(  # noqa: PLR0913  one parameter per option
        self,
        links: Sequence[Any],
        positions: Sequence[Any],
        quaternions: Sequence[Any],
        init_qpos: Any,
        *,
        points: Sequence[Any] | None = None,
        look_at: tuple[Any, Any] | None = None,
        look_axis: Any = (0.0, 0.0, 1.0),
        com: Any = None,
        com_mask: Sequence[bool] = (True, True, True),
        posture: Any = None,
        pos_mask: Sequence[bool] = (True, True, True),
        rot_mask: Sequence[bool] = (True, True, True),
        dofs: Sequence[int] | None = None,
        method: str = "lm",
        **options: Any,
    ) -> IKSolutions:
        """Solve inverse kinematics for targets of links, look-at direction, centre of mass and posture.

        Sequences have one entry for each link; None for no target. Options are those of
        `Kinematics.inverse_kinematics`, which has the full description. Targets and initial configurations of one row
        are broadcast.
        """
        label = "inverse kinematics"
        goal_targets = self._link_goals(links, positions, quaternions, points, pos_mask, rot_mask)
        names = self.model.links.names
        if look_at is not None:
            link, target = _validate_look_at(look_at, label)
            axis = tuple(validate_unit_rows(look_axis, 3, f"{label}: look_axis", 1)[0].tolist())
            goal = LookAtGoal(link_idx=resolve_index(link, names, label, "links"), axis=axis, weight=ROTATION_WEIGHT)
            goal_targets.add(goal, validate_rows(target, 3, f"{label}: look_at"))
        if com is not None:
            goal_targets.add(
                CenterOfMassGoal(mask=_validate_mask(com_mask, "com_mask")), validate_rows(com, 3, f"{label}: com")
            )
        if not goal_targets.goals:
            raise KinemaError(f"{label}: no target is given; expected pos, quat, look_at or com")
        qpos = validate_rows(init_qpos, self.model.n_qs, f"{label}: init_qpos")
        desired = None if posture is None else validate_rows(posture, self.model.n_qs, f"{label}: posture")
        arrays = [*goal_targets.targets, qpos, *([] if desired is None else [desired])]
        n = broadcast_length(arrays, label)
        targets = [np.broadcast_to(x, (n, x.shape[1])) for x in goal_targets.targets]
        qpos = np.broadcast_to(qpos, (n, qpos.shape[1]))
        desired = None if desired is None else np.broadcast_to(desired, qpos.shape)
        solver = self._compiled_for(goal_targets.goals, dofs, desired is not None)
        return solver.solve(targets, qpos, parse_ik_options(method, options), desired)

    def _link_goals(
        self,
        links: Sequence[Any],
        positions: Sequence[Any],
        quaternions: Sequence[Any],
        points: Sequence[Any] | None,
        pos_mask: Sequence[bool],
        rot_mask: Sequence[bool],
    ) -> _GoalTargets:
        """Position and orientation goals of links with their validated targets.

        A rotation mask of one axis gives an `AxisGoal`; two or three axes give an `OrientationGoal`.
        """
        label, goal_targets = "inverse kinematics", _GoalTargets([], [])
        position_mask, rotation_mask = _validate_mask(pos_mask, "pos_mask"), _validate_mask(rot_mask, "rot_mask")
        offsets = [(0.0, 0.0, 0.0)] * len(links) if points is None else points
        if not len(links) == len(positions) == len(quaternions) == len(offsets):
            raise KinemaError(f"{label}: expected one position, quaternion and point (or None) for each link")
        for link, pos, quat, offset in zip(links, positions, quaternions, offsets, strict=True):
            link_idx = resolve_index(link, self.model.links.names, label, "links")
            point = tuple(validate_rows(offset, 3, f"{label}: point", 1)[0].tolist())
            if pos is not None and any(position_mask):
                goal_targets.add(
                    PositionGoal(link_idx=link_idx, point=point, mask=position_mask),
                    validate_rows(pos, 3, f"{label}: pos"),
                )
            if quat is None or not any(rotation_mask):
                continue
            target = validate_unit_rows(quat, 4, f"{label}: quat")
            if sum(rotation_mask) == 1:
                goal_targets.add(
                    AxisGoal(link_idx=link_idx, axis=rotation_mask.index(True), weight=ROTATION_WEIGHT), target
                )
            else:  # two axes determine the third
                goal_targets.add(OrientationGoal(link_idx=link_idx, weight=ROTATION_WEIGHT), target)
        return goal_targets

    def _compiled_for(self, goals: Sequence[Goal], dofs: Sequence[int] | None, has_posture: bool) -> CompiledIK:
        """Compiled solver for a set of goals, free dofs and use of a posture; compiled on first use, then reused."""
        key = (tuple(goals), None if dofs is None else tuple(dofs), has_posture)
        if key not in self._compiled:
            self._compiled[key] = CompiledIK(
                self.model,
                goals,
                self._device,
                dofs=dofs,
                has_posture=has_posture,
                precision=self._precision,
                threads=self._threads,
            )
        return self._compiled[key]


def parse_ik_options(method: str, options: dict[str, Any]) -> IKOptions:
    """Options of a method with user overrides, validated; raises `KinemaError` for unknown or invalid options."""
    if method not in IK_METHODS:
        raise KinemaError(f"inverse kinematics: method {method!r} is none of {', '.join(IK_METHODS)}")
    known = [f.name for f in fields(IKOptions)]
    for name, value in options.items():
        if name not in known:
            raise KinemaError(f"inverse kinematics: there is no option {name!r}; the options are: {', '.join(known)}")
        if name not in ("seed", "respect_joint_limit") and not (np.isreal(value) and 0.0 <= value < np.inf):
            raise KinemaError(
                f"inverse kinematics: {name}: expected a finite number that is not negative, not {value!r}"
            )
    result = replace(IKOptions(), **IK_METHODS[method])
    result = replace(result, **{k: v for k, v in options.items() if v is not None})
    if result.max_samples < 1 or result.max_solver_iters < 1 or not (result.pos_tol > 0.0 < result.rot_tol):
        raise KinemaError("inverse kinematics: expected at least one sample, one iteration and positive tolerances")
    return result


def _validate_mask(values: Sequence[bool], label: str) -> tuple[bool, ...]:
    mask = tuple(bool(x) for x in values)
    if len(mask) != 3:
        raise KinemaError(f"inverse kinematics: {label}: expected three booleans, not {values!r}")
    return mask


def _validate_look_at(look_at: Any, label: str) -> tuple[Any, Any]:
    if not isinstance(look_at, tuple | list) or len(look_at) != 2:
        raise KinemaError(f"{label}: look_at: expected a link and a target position, not {look_at!r}")
    return look_at[0], look_at[1]
