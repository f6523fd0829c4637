"""Recordings as MP4 videos: images of a camera while the scene is stepped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kinema.core import KinemaError
from kinema.render import Mp4Writer

from .arguments import Selection, resolve_envs
from .cameras import SceneCamera

FRAME_RATE = 30.0
"""Frames per second of simulated time."""


def record_video(
    camera: SceneCamera, path: Path, *, time_step: float, every: int | None, envs_idx: Selection
) -> VideoRecording:
    """Start a video of a camera; arguments as of `VideoRecording`, None for the first environment."""
    n_envs = camera.n_envs
    envs = resolve_envs(0 if envs_idx is None else envs_idx, n_envs)
    selected = list(range(n_envs)) if envs is None else envs.tolist()
    return VideoRecording(camera, path, time_step=time_step, every=every, envs=selected)


class VideoRecording:
    """An open video: encodes an image whenever it is due, until `close()` or the end of a `with` block."""

    def __init__(
        self, camera: SceneCamera, path: Path, *, time_step: float, every: int | None, envs: Sequence[int]
    ) -> None:
        """Start a video with the current state as first frame.

        Args:
            camera: camera of the scene.
            path: file to write, `.mp4`.
            time_step: time between steps [s].
            every: number of steps between frames; None for `FRAME_RATE`.
            envs: environments, side by side in a grid.
        """
        self.path = path
        """Path of the file; it is complete after `close`."""
        self.is_open = True
        self._camera, self._envs = camera, list(envs)
        if not self._envs:
            raise KinemaError("record: no environment is selected")
        self._period = 1.0 / (FRAME_RATE * time_step) if every is None else float(every)
        self._steps = 0
        self._writer = Mp4Writer(path, 1.0 / (self._period * time_step))
        self._append_frame()

    def __enter__(self) -> VideoRecording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<VideoRecording {self.path}: {self._writer.n_frames} frames, {'open' if self.is_open else 'closed'}>"

    def on_step(self) -> None:
        """Append a frame if it is due; called by the scene after each step."""
        self._steps += 1
        if self._steps >= self._writer.n_frames * self._period - 1e-9:
            self._append_frame()

    def _append_frame(self) -> None:
        self._writer.append(tile([self._camera.picture(env) for env in self._envs]))

    def close(self) -> None:
        """Finish the file; a second call has no effect."""
        if self.is_open:
            self.is_open = False
            self._writer.close()


def tile(images: Sequence[np.ndarray]) -> np.ndarray:
    """Images (rows, columns, 3) of equal size side by side in a square grid, black where there is none."""
    n_columns = math.ceil(math.sqrt(len(images)))
    images = [*images, *[np.zeros_like(images[0])] * (-len(images) % n_columns)]
    return np.concatenate(
        [np.concatenate(images[k : k + n_columns], axis=1) for k in range(0, len(images), n_columns)], axis=0
    )
