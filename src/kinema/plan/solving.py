"""Inverse kinematics in the words of users: links and targets in, coordinates out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kinema.backend import find_device
from kinema.foundation import Array, KinemaError
from kinema.model import Model
from kinema.sim import (
    METHODS,
    AxisGoal,
    CenterGoal,
    Goal,
    InverseKinematics,
    LookGoal,
    OrientationGoal,
    PositionGoal,
    Search,
    Solutions,
)

from .arguments import common_length, index, rows, unit_rows

TURNS_WEIGH = 0.1
"""A radian against a metre, squared: what matters while not everything is reached yet."""


@dataclass(slots=True)
class _Asked:
    """Goals and the targets of each."""

    goals: list[Goal]
    targets: list[Array]

    def add(self, goal: Goal, target: Array) -> None:
        self.goals.append(goal)
        self.targets.append(target)


class Solving:
    """The inverse kinematics of one model: a program for each kind of question, compiled when it is first asked."""

    def __init__(
        self, model: Model, device: str = "cpu", precision: str = "single", threads: int | None = None
    ) -> None:
        self.model = model
        self._device = find_device(device)
        self._precision = precision
        self._threads = threads
        self._solvers: dict[object, InverseKinematics] = {}

    def solve(  # noqa: PLR0913  one for each thing that may be wanted
        self,
        links: Sequence[Any],
        poss: Sequence[Any],
        quats: Sequence[Any],
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
        **how: Any,
    ) -> Solutions:
        """See `Kinematics.inverse_kinematics`."""
        what = "inverse kinematics"
        asked = self._links_asked(links, poss, quats, points, pos_mask, rot_mask)
        names = self.model.links.names
        if look_at is not None:
            link, place = _pair(look_at, what)
            axis = tuple(unit_rows(look_axis, 3, f"{what}: look_axis", 1)[0].tolist())
            goal = LookGoal(link_idx=index(link, names, what, "links"), axis=axis, weight=TURNS_WEIGH)
            asked.add(goal, rows(place, 3, f"{what}: look_at"))
        if com is not None:
            asked.add(CenterGoal(mask=_mask(com_mask, "com_mask")), rows(com, 3, f"{what}: com"))
        if not asked.goals:
            raise KinemaError(f"{what}: say where something is to be: pos, quat, look_at or com")
        qpos = rows(init_qpos, self.model.n_qs, f"{what}: init_qpos")
        wished = None if posture is None else rows(posture, self.model.n_qs, f"{what}: posture")
        everything = [*asked.targets, qpos, *([] if wished is None else [wished])]
        n = common_length(everything, what)
        targets = [np.broadcast_to(x, (n, x.shape[1])) for x in asked.targets]
        qpos = np.broadcast_to(qpos, (n, qpos.shape[1]))
        wished = None if wished is None else np.broadcast_to(wished, qpos.shape)
        solver = self._solver(asked.goals, dofs, wished is not None)
        return solver.solve(targets, qpos, search_of(method, how), wished)

    def _links_asked(
        self,
        links: Sequence[Any],
        poss: Sequence[Any],
        quats: Sequence[Any],
        points: Sequence[Any] | None,
        pos_mask: Sequence[bool],
        rot_mask: Sequence[bool],
    ) -> _Asked:
        what, asked = "inverse kinematics", _Asked([], [])
        places, turns = _mask(pos_mask, "pos_mask"), _mask(rot_mask, "rot_mask")
        offsets = [(0.0, 0.0, 0.0)] * len(links) if points is None else points
        if not len(links) == len(poss) == len(quats) == len(offsets):
            raise KinemaError(f"{what}: as many positions, quaternions and points as links, or None for each")
        for link, pos, quat, offset in zip(links, poss, quats, offsets, strict=True):
            number = index(link, self.model.links.names, what, "links")
            point = tuple(rows(offset, 3, f"{what}: point", 1)[0].tolist())
            if pos is not None and any(places):
                asked.add(PositionGoal(link_idx=number, point=point, mask=places), rows(pos, 3, f"{what}: pos"))
            if quat is None or not any(turns):
                continue
            target = unit_rows(quat, 4, f"{what}: quat")
            if sum(turns) == 1:
                asked.add(AxisGoal(link_idx=number, axis=turns.index(True), weight=TURNS_WEIGH), target)
            else:  # two axes leave nothing of the third
                asked.add(OrientationGoal(link_idx=number, weight=TURNS_WEIGH), target)
        return asked

    def _solver(self, goals: Sequence[Goal], dofs: Sequence[int] | None, posture: bool) -> InverseKinematics:
        key = (tuple(goals), None if dofs is None else tuple(dofs), posture)
        if key not in self._solvers:
            self._solvers[key] = InverseKinematics(
                self.model,
                goals,
                self._device,
                dofs=dofs,
                posture=posture,
                precision=self._precision,
                threads=self._threads,
            )
        return self._solvers[key]


def search_of(method: str, how: dict[str, Any]) -> Search:
    """The settings of a search, by the method's name and what differs from it."""
    if method not in METHODS:
        raise KinemaError(f"inverse kinematics: method {method!r} is none of {', '.join(METHODS)}")
    known = [f.name for f in fields(Search)]
    for name, value in how.items():
        if name not in known:
            raise KinemaError(f"inverse kinematics: there is no setting {name!r}; there are: {', '.join(known)}")
        if name not in ("seed", "respect_joint_limit") and not (np.isreal(value) and 0.0 <= value < np.inf):
            raise KinemaError(f"inverse kinematics: {name}: expected a number that is not negative, not {value!r}")
    search = replace(Search(), **METHODS[method])
    search = replace(search, **{k: v for k, v in how.items() if v is not None})
    if search.max_samples < 1 or search.max_solver_iters < 1 or not (search.pos_tol > 0.0 < search.rot_tol):
        raise KinemaError("inverse kinematics: at least one start, one step, and tolerances that can be reached")
    return search


def _mask(values: Sequence[bool], what: str) -> tuple[bool, ...]:
    mask = tuple(bool(x) for x in values)
    if len(mask) != 3:
        raise KinemaError(f"inverse kinematics: {what}: expected three of True and False, not {values!r}")
    return mask


def _pair(look_at: Any, what: str) -> tuple[Any, Any]:
    if not isinstance(look_at, tuple | list) or len(look_at) != 2:
        raise KinemaError(f"{what}: look_at: expected a link and the place to look at, not {look_at!r}")
    return look_at[0], look_at[1]
