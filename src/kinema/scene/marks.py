"""Where on its links an entity has something: its shapes, and the frames that its file names (sites of MJCF)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from kinema.description import Frame, Robot, World, qualified
from kinema.foundation import Pose, quaternion_products, turned

from .batches import Index, environments, items
from .measuring import Measuring

WORLD = -1


class Marks(Measuring):
    """The part of an entity that tells it. All of it is in the world, as NumPy's arrays."""

    scene: Any

    @property
    def frame_names(self) -> list[str]:
        """The frames that its file names (sites of MJCF, frames of SDFormat), in their order."""
        return [name for name, *_ in named_frames(self.description)]

    def get_frames_pos(self, frames_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Positions of named frames [m], (n_envs, n, 3): MuJoCo's `site_xpos`."""
        return self._frames(frames_idx, envs_idx, "get_frames_pos")[0]

    def get_frames_quat(self, frames_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """How named frames are turned (w, x, y, z), (n_envs, n, 4)."""
        return self._frames(frames_idx, envs_idx, "get_frames_quat")[1]

    def get_geoms_pos(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Positions of shapes [m], (n_envs, n, 3), in the order of `geom_names`: MuJoCo's `geom_xpos`."""
        return self._shapes_placed(geoms_idx, envs_idx, "get_geoms_pos")[0]

    def get_geoms_quat(self, geoms_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """How shapes are turned (w, x, y, z), (n_envs, n, 4); see `get_geoms_pos`."""
        return self._shapes_placed(geoms_idx, envs_idx, "get_geoms_quat")[1]

    def _frames(self, frames_idx: Any, envs_idx: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
        own = items(frames_idx, self.frame_names, f"{what}: frames_idx", "frames")
        variants = [self.description] if self._mixed is None else self._mixed.shown
        found = [named_frames(one) for one in variants]
        links = [self._link_of(variants[0], *found[0][i][1:]) for i in own]
        poses = [[self._on_link(*each[i][1:]) for i in own] for each in found]
        return self._placed(links, poses, self.variant_idx, envs_idx)

    def _link_of(self, whole: Robot | World, owner: Robot | World, frame: Frame) -> int:
        """The number of its link in the scene."""
        if frame.link is None:
            return WORLD
        known = whole.named_links() if isinstance(whole, World) else ((x.name, whole, x) for x in whole.links)
        own = (name for name, robot, x in known if frame.link in (x.name, name) and owner in (robot, whole))
        return self.info.link_start + self._alone.links.names.index(next(own))

    def _on_link(self, owner: Robot | World, frame: Frame) -> Pose:
        """Where it is there, or in the world where nothing carries it."""
        if frame.link is not None:
            return frame.pose
        part = self.scene._parts[self.scene.entities.index(self)]
        own = owner.pose if isinstance(owner, Robot) else Pose()
        if part.pose is not None:
            own = part.pose if isinstance(self.description, Robot) else part.pose @ own
        return own @ frame.pose

    def _shapes_placed(self, geoms_idx: Any, envs_idx: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
        own = self._geoms(geoms_idx, what)
        variants = self._running.engine.variants
        links = variants.models[0].geoms.link_idx[own].tolist()
        poses = []
        for model in variants.models:
            geoms, at = model.geoms, model.links
            seats = [Pose() if k < 0 else Pose(at.pos[k], at.rot[k]) for k in links]
            shapes = [Pose(geoms.pos[i], geoms.rot[i]) for i in own]
            poses.append([seat.inverse() @ shape for seat, shape in zip(seats, shapes, strict=True)])
        return self._placed(links, poses, variants.which, envs_idx)

    def _placed(
        self, links: list[int], poses: list[list[Pose]], which: Index, envs_idx: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions and quaternions in the world, (n_envs, n, ...), of poses on links; those of each variant."""
        envs = environments(envs_idx, self._running.n_envs)
        chosen = which if envs is None else which[envs]
        place = np.array([[pose.position for pose in own] for own in poses]).reshape(len(poses), -1, 3)[chosen]
        turn = np.array([[pose.quaternion for pose in own] for own in poses]).reshape(len(poses), -1, 4)[chosen]
        state = self._running.engine.fields.links_state
        carried = np.flatnonzero(np.array(links) != WORLD)
        if len(carried):
            rows = np.array(links)[carried]
            at, by = (np.moveaxis(np.asarray(x.numpy(), np.float64)[rows], 1, 0) for x in (state.pos, state.quat))
            at, by = (at, by) if envs is None else (at[envs], by[envs])
            place[:, carried] = at + turned(by, place[:, carried])
            turn[:, carried] = quaternion_products(by, turn[:, carried])
        dtype = self._running.memory.dtype
        return place.astype(dtype), turn.astype(dtype)


def named_frames(description: Robot | World) -> list[tuple[str, Robot | World, Frame]]:
    """Every named frame, with the robot's name before it where several have one of that name; and who has it."""
    owners = [description, *(description.robots if isinstance(description, World) else [])]
    found = [(owner, frame) for owner in owners for frame in owner.frames]
    shared = {name for name, count in Counter(frame.name for _, frame in found).items() if count > 1}
    return [
        (qualified(owner, frame.name, shared) if isinstance(owner, Robot) else frame.name, owner, frame)
        for owner, frame in found
    ]
