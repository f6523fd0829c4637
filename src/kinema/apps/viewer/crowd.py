"""Many environments side by side: every link once, drawn as often as there are environments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinema.foundation import Array

from .exhibit import Exhibit
from .glb import glb
from .painted import coarser, joined, painted
from .stage import VIEWS, Stage

MOST = 64
_SEGMENTS = 8
"""Of circles of round shapes: they are small, and there are many."""
_COARSE = 20_000
"""Triangles of all environments together where they are drawn coarsely; textured ones are not counted."""


class Crowd:
    """The nodes of all environments that are shown together."""

    def __init__(self, stage: Stage, count: int, *, coarse: bool = False) -> None:
        self.stage = stage
        self.coarse = coarse
        """Whether meshes have few triangles, for browsers without a GPU."""
        self.count = min(count, MOST)
        span = stage.high - stage.low
        columns = math.ceil(math.sqrt(self.count))
        reach = max(float(span[0]), float(span[1]), 0.7 * float(span[2]))  # an arm that stands reaches out
        step = 1.15 * reach
        numbers = np.arange(self.count)
        self.places = np.zeros((self.count, 3))
        self.places[:, 0] = (numbers // columns - (columns - 1) / 2) * step
        self.places[:, 1] = (numbers % columns - (columns - 1) / 2) * step
        self.reach = columns * step
        """How wide they stand [m]."""
        self._nodes: dict[tuple[int, str], Any] = {}
        with stage.viser.atomic():
            for exhibit in stage.exhibits:
                self._add(exhibit)

    def _add(self, exhibit: Exhibit) -> None:
        still = np.tile([1.0, 0.0, 0.0, 0.0], (self.count, 1))
        drawn = {
            link: joined([p for _, shape in shapes for p in painted(shape, _SEGMENTS)])
            for link, shapes in exhibit.drawn().items()
        }
        every = sum(len(part.faces) for parts in drawn.values() for part in parts)
        share = _COARSE / max(every * self.count, 1) if self.coarse else 1.0
        for i, (link, parts) in enumerate(drawn.items()):
            if parts:
                coarse = [coarser(part, share) for part in parts] if share < 1.0 else parts
                self._nodes[exhibit.number, link] = self.stage.scene.add_batched_glb(
                    f"/crowd/{exhibit.number}/{i}", glb(coarse), still, self.places
                )

    def pose(self, exhibit: Exhibit, poses: dict[str, tuple[Array, Array]]) -> None:
        """Put the links of all environments: positions (n, 3) and quaternions (n, 4)."""
        for link, (positions, quaternions) in poses.items():
            node = self._nodes.get((exhibit.number, link))
            if node is not None:
                node.batched_positions = np.nan_to_num(positions + self.places).astype(np.float32)
                node.batched_wxyzs = np.nan_to_num(quaternions).astype(np.float32)

    def frame(self, client: Any, view: str) -> None:
        """Look at all of them."""
        middle = (self.stage.low + self.stage.high) / 2
        direction = np.array(VIEWS[view])
        beside = np.cross(direction, (0.0, 0.0, -1.0)) * (0.2 * self.reach / np.linalg.norm(direction[:2]))  # the panel
        client.camera.position = middle + beside + direction * (1.5 * self.reach / np.linalg.norm(direction))
        client.camera.look_at = middle + beside

    def remove(self) -> None:
        """Take them away."""
        with self.stage.viser.atomic():
            for node in self._nodes.values():
                node.remove()
        self._nodes = {}
