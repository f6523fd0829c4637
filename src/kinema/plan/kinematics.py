"""A robot's kinematics and dynamics without a scene, for many sets of coordinates at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinema.backend import find_device
from kinema.compile import Part, compile_model
from kinema.description import Robot, World
from kinema.foundation import Array, Diagnostics, KinemaError
from kinema.model import Model
from kinema.sim import Answers, Solutions

from .arguments import common_length, index, rows
from .coordinates import difference, integrated
from .operational import operational_forces
from .solving import Solving

PRECISIONS = ("single", "double")


class Kinematics:
    """Where a robot's links are, what moves them and what that takes, by programs compiled for this very robot.

    Coordinates are laid out as in a scene: in the order of the description's joints, x, y, z and a quaternion (w, x, y,
    z) of a free base. Arrays have one row for each set of coordinates; one row alone is taken as well.

    Args:
        robot: a description, or the path of a file.
        fixed: whether its base is bolted down; None for as the file says, and bolted down where it says nothing.
        device: `cpu`, `cuda:0`, ...
        precision: `single` (32 bits) or `double`.
        threads: at most so many on a CPU; None for as many as there are cores.
    """

    def __init__(
        self,
        robot: Robot | World | str | os.PathLike[str],
        *,
        fixed: bool | None = None,
        device: str = "cpu",
        precision: str = "single",
        threads: int | None = None,
    ) -> None:
        if precision not in PRECISIONS:
            raise KinemaError(f"precision: {precision!r} is none of {', '.join(PRECISIONS)}")
        description = robot if isinstance(robot, Robot | World) else _read(robot)
        self.diagnostics = Diagnostics()
        part = Part(name=description.name or "robot", description=description, pose=None, fixed=fixed)
        self.model: Model = compile_model([part], diagnostics=self.diagnostics)
        self._answers = Answers(self.model, find_device(device), precision, threads)
        self._solving = Solving(self.model, device, precision, threads)

    @property
    def link_names(self) -> list[str]:
        """The links, in the order of `forward_kinematics`."""
        return list(self.model.links.names)

    @property
    def dof_names(self) -> list[str]:
        """The degrees of freedom, in the order of velocities."""
        return list(self.model.dofs.names)

    @property
    def n_qs(self) -> int:
        """Coordinates."""
        return self.model.n_qs

    @property
    def n_dofs(self) -> int:
        """Degrees of freedom."""
        return self.model.n_dofs

    @property
    def limits(self) -> tuple[Array, Array]:
        """Lower and upper limit of each degree of freedom [m, rad]; infinite where there is none."""
        return np.array(self.model.dofs.lower), np.array(self.model.dofs.upper)

    @property
    def start(self) -> Array:
        """The coordinates that its file shows, (n_qs,)."""
        return np.array(self.model.qpos0)

    # --------------------------------------------------------------------------------------- coordinates themselves

    def integrate(self, qpos: Any, qvel: Any, dt: float = 1.0) -> Array:
        """Coordinates after moving on at a velocity for some time [s], (n, n_qs): MuJoCo's `mj_integratePos`."""
        given, speed = self._qpos(qpos), rows(qvel, self.n_dofs, "integrate: qvel")
        common_length([given, speed], "integrate")
        return integrated(self.model, given, dt * speed)

    def difference(self, before: Any, after: Any, dt: float = 1.0) -> Array:
        """The velocity that leads from coordinates to others in some time [s], (n, n_dofs): `mj_differentiatePos`."""
        first, second = self._qpos(before), self._qpos(after)
        common_length([first, second], "difference")
        return difference(self.model, first, second) / dt

    # ------------------------------------------------------------------------------------------------- questions

    def forward_kinematics(self, qpos: Any) -> tuple[Array, Array]:
        """Positions [m], (n, n_links, 3), and orientations (w, x, y, z), (n, n_links, 4), of all links in the world."""
        return self._answers.poses(self._qpos(qpos))

    def jacobian(self, qpos: Any, link: str | int) -> Array:
        """Velocity of a link's origin by each joint velocity, (n, 6, n_dofs): linear rows, then angular."""
        return self._answers.jacobian(self._qpos(qpos), self._link(link))[0]

    def mass_matrix(self, qpos: Any) -> Array:
        """The joint-space inertia [kg, kg m, kg m2], (n, n_dofs, n_dofs)."""
        return self._answers.mass_matrix(self._qpos(qpos))

    def center_of_mass(self, qpos: Any) -> Array:
        """The centre of mass of the whole robot in the world [m], (n, 3)."""
        return self._answers.center_of_mass(self._qpos(qpos))

    def inverse_dynamics(self, qpos: Any, qvel: Any, qacc: Any) -> Array:
        """What actuators have to do for these accelerations [N, N m], (n, n_dofs): MuJoCo's `mj_inverse`.

        That is inertia, gyration and weight, less what springs, dampers and a medium do anyway; nothing touches.
        """
        return self._answers.inverse_dynamics(*self._states(qpos, qvel, qacc))

    def gravity_compensation(self, qpos: Any) -> Array:
        """What holds the robot's weight at rest [N, N m], (n, n_dofs); springs of joints not counted."""
        return self._answers.holding_forces(self._qpos(qpos))

    def operational_space(
        self,
        qpos: Any,
        qvel: Any,
        link: str | int,
        acceleration: Any,
        *,
        mask: Sequence[bool] = (True,) * 6,
        posture_force: Any = None,
        damping: float = 1e-12,
    ) -> Array:
        """Joint forces that accelerate a link as wished [N, N m], (n, n_dofs).

        Args:
            qpos: coordinates.
            qvel: velocities.
            link: the link whose origin is meant.
            acceleration: linear [m/s2], then angular [rad/s2], along the world's axes, (n, 6).
            mask: which of these six matter.
            posture_force: joint forces that act only as far as they leave that acceleration alone, (n, n_dofs).
            damping: keeps the forces finite where the link cannot be moved so.
        """
        q, v = self._states(qpos, qvel)
        wished = rows(acceleration, 6, "operational_space: acceleration", len(q) if len(q) > 1 else None)
        extra = None if posture_force is None else rows(posture_force, self.n_dofs, "operational_space: posture_force")
        jacobian, drift = self._answers.jacobian(q, self._link(link), v)
        mass, bias = self._answers.mass_matrix(q), self._answers.holding_forces(q, v)
        return operational_forces(jacobian, drift, mass, bias, wished, np.asarray(mask, bool), extra, damping)

    # ---------------------------------------------------------------------------------------------- the other way

    def inverse_kinematics(
        self,
        link: str | int | Sequence[str | int] | None = None,
        pos: Any = None,
        quat: Any = None,
        *,
        init_qpos: Any = None,
        dofs: Sequence[str | int] | None = None,
        point: Any = None,
        **how: Any,
    ) -> Solutions:
        """Coordinates at which links are where they should be: for many targets at a time.

        Args:
            link: a link, or several.
            pos: where its origin is to be in the world [m], (3,) or (n, 3); of several links a list, None for any.
            quat: how it is to be turned (w, x, y, z), likewise.
            init_qpos: where to start, (n_qs,) or (n, n_qs); None for what the file shows.
            dofs: the joints or degrees of freedom that may move; None for all that move these links.
            point: the point of the link that `pos` is about, in the link [m]; of several links a list.
            how: any of `pos_mask` and `rot_mask` (axes of the world; one axis of the link alone), `look_at=(link,
                place)` and `look_axis`, `com` and `com_mask`, `posture` (coordinates that those tend to which the
                targets leave free), `method` (`lm`, `dls` or `gauss-newton`), `pos_tol`, `rot_tol`,
                `max_solver_iters`, `max_samples`, `damping`, `max_step_size`, `respect_joint_limit`, `seed`.

        Returns:
            `qpos`, `solved`, `pos_error`, `rot_error`, `attempts` and `steps`, a row for each target; where a target
            was not reached, the coordinates that came nearest.
        """
        several = isinstance(link, list | tuple)
        links = [] if link is None else list(link) if several else [link]  # type: ignore[arg-type]
        poss, quats = (self._each(x, len(links), several, name) for x, name in ((pos, "pos"), (quat, "quat")))
        points = None if point is None else (list(point) if several else [point])
        start = self.start if init_qpos is None else init_qpos
        numbers = None if dofs is None else self.dofs(dofs)
        return self._solving.solve(links, poss, quats, start, points=points, dofs=numbers, **how)

    def dofs(self, wanted: Sequence[str | int]) -> list[int]:
        """The numbers of degrees of freedom, by number, by name, or by the name of their joint."""
        joints, found = self.model.joints, list[int]()
        for one in [wanted] if isinstance(wanted, str | int) else wanted:
            if isinstance(one, str) and one in joints.names:
                at = joints.names.index(one)
                found += range(int(joints.dof_start[at]), int(joints.dof_end[at]))
            else:
                found.append(index(one, self.model.dofs.names, "dofs", "degrees of freedom"))
        return found

    # ------------------------------------------------------------------------------------------------------ inputs

    def _link(self, link: str | int) -> int:
        return index(link, self.model.links.names, "link", "links")

    def _qpos(self, qpos: Any) -> Array:
        return rows(qpos, self.n_qs, "qpos")

    def _states(self, qpos: Any, *others: Any) -> list[Array]:
        given = [self._qpos(qpos), *(rows(x, self.n_dofs, "velocities and accelerations") for x in others)]
        n = common_length(given, "coordinates and velocities")
        return [np.broadcast_to(x, (n, x.shape[1])) for x in given]

    @staticmethod
    def _each(values: Any, count: int, several: bool, what: str) -> list[Any]:
        if values is None:
            return [None] * count
        if not several:
            return [values]
        if len(values) != count:
            raise KinemaError(f"inverse kinematics: {what}: one entry for each of {count} links, not {len(values)}")
        return list(values)


def ik(
    robot: Robot | World | Kinematics | str | os.PathLike[str],
    link: str | int | Sequence[str | int],
    pos: Any = None,
    quat: Any = None,
    **how: Any,
) -> Solutions:
    """Coordinates at which a robot's link is where it should be: see `Kinematics.inverse_kinematics`.

    Whoever asks more than once holds a `Kinematics`, which compiles each kind of question once.
    """
    held = robot if isinstance(robot, Kinematics) else Kinematics(robot)
    return held.inverse_kinematics(link, pos, quat, **how)


def _read(path: str | os.PathLike[str]) -> Robot | World:
    from kinema.read import read

    if not isinstance(path, str | os.PathLike):
        raise KinemaError(f"expected a robot, a world or the path of a file, not {path!r}")
    return read(Path(path))
