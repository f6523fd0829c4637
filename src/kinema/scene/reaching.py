"""What entities know of kinematics: where their links would be, and coordinates that bring them somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.backend import find_device

from .batches import environments
from .placing import Placing

if TYPE_CHECKING:
    from kinema.plan import Solving
    from kinema.sim import Answers


class Reaching(Placing):
    """Forward and inverse kinematics of an entity, by programs of its own; nothing in the scene moves by them."""

    _solving: Solving | None = None
    _answers: Answers | None = None

    def inverse_kinematics(
        self, link: Any = None, pos: Any = None, quat: Any = None, *, return_error: bool = False, **how: Any
    ) -> Any:
        """Coordinates at which a link is where it should be, (n_envs, n_qs); `set_qpos` or control goes there.

        Args:
            link: a link, by name or number, or as `get_link` gives it.
            pos: where its origin is to be in the world [m], (3,) or (n_envs, 3).
            quat: how it is to be turned (w, x, y, z), likewise.
            return_error: give all that was found: `qpos`, `solved`, `pos_error`, `rot_error`, ...
            how: `init_qpos` (else where it is now), `dofs_idx`, `envs_idx`, `point` of the link, and all that
                `kinema.Kinematics.inverse_kinematics` takes: `pos_mask`, `rot_mask`, `look_at`, `com`, `posture`,
                `method`, `pos_tol`, `rot_tol`, `max_samples`, ...
        """
        links, point = ([] if link is None else [link]), how.pop("point", None)
        points = None if point is None else [point]
        wanted = ([pos], [quat]) if links else ([], [])
        return self._solve(links, *wanted, return_error, points=points, **how)

    def inverse_kinematics_multilink(
        self,
        links: Sequence[Any],
        poss: Sequence[Any] | None = None,
        quats: Sequence[Any] | None = None,
        *,
        return_error: bool = False,
        **how: Any,
    ) -> Any:
        """The same for several links at once; `poss` and `quats` have an entry for each, or None for any."""
        poss, quats = (x if x is not None else [None] * len(links) for x in (poss, quats))
        return self._solve(list(links), list(poss), list(quats), return_error, **how)

    def _solve(
        self,
        links: list[Any],
        poss: list[Any],
        quats: list[Any],
        return_error: bool,
        *,
        init_qpos: Any = None,
        dofs_idx: Any = None,
        envs_idx: Any = None,
        **how: Any,
    ) -> Any:
        running = self._running
        start = self.get_qpos(envs_idx) if init_qpos is None else init_qpos
        dofs = None if dofs_idx is None else [int(d) for d in self._dofs(dofs_idx, "inverse_kinematics")]
        if self._solving is None:
            from kinema.plan import Solving

            engine = running.engine
            self._solving = Solving(self._alone, engine.device.name, engine.precision, engine.threads)
        found = self._solving.solve(links, poss, quats, start, dofs=dofs, **how)
        return found if return_error else found.qpos.astype(running.memory.dtype)

    def forward_kinematics(
        self, qpos: Any, links_idx: Any = None, envs_idx: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where links would be at some coordinates: positions [m], (n, n_links, 3), and quaternions, (n, n_links, 4).

        Of coordinates for all environments, `envs_idx` takes some.
        """
        from kinema.plan import rows
        from kinema.sim import Answers

        given = rows(qpos, self._alone.n_qs, "forward_kinematics: qpos")
        envs = environments(envs_idx, self._running.n_envs)
        given = given if envs is None or len(given) == 1 else given[envs]
        if self._answers is None:
            engine = self._running.engine
            self._answers = Answers(self._alone, find_device(engine.device.name), engine.precision, engine.threads)
        own = self._links(links_idx, "forward_kinematics")
        pos, quat = self._answers.poses(given)
        return pos[:, own], quat[:, own]
