"""Dragging a link with the mouse: a spring pulls at the point that was grabbed."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from kinema.foundation import Array, KinemaError

from .exhibit import Exhibit, Part
from .player import Player
from .pulling import Pull
from .stage import Stage


class Director(Protocol):
    """What dragging wants of the viewer."""

    exhibits: list[Exhibit]
    player: Player
    stage: Stage
    env: int

    def notify(self, text: str) -> None:
        """Tell everybody who looks."""


class Dragging:
    """The spring between what is held and the pointer."""

    def __init__(self, director: Director) -> None:
        self._director = director
        self._line: Any = None

    def listen(self, handle: Any, part: Part) -> None:
        """Let a node be dragged."""

        async def dragged(event: Any) -> None:  # in order, because it is awaited
            self._drag(part, event.phase, np.array(event.start_position), np.array(event.end_position))

        handle.on_drag("left", modifier="cmd/ctrl")(dragged)

    def _drag(self, part: Part, phase: str, grabbed: Array, pointer: Array) -> None:
        director = self._director
        exhibit, player = director.exhibits[part.exhibit], director.player
        if phase == "end" or exhibit.entity is None or part.name not in exhibit.links:
            player.grab(None)
        elif phase == "start" or player.pull is None:
            try:
                pull = Pull.at(exhibit, part.name, director.env, grabbed)
                pull.target = pointer
                pull.release()  # which fails where nothing can be pushed
            except KinemaError as error:
                director.notify(str(error))
                return
            player.grab(pull)
        else:
            player.pull.target = pointer

    def draw(self) -> None:
        """The spring as a line, as long as it pulls."""
        if self._line is not None:
            self._line.remove()
            self._line = None
        pull = self._director.player.pull
        if pull is not None:
            ends = np.stack([pull.point, pull.target])[None]
            paint = np.array([255, 60, 60], dtype=np.uint8)
            self._line = self._director.stage.scene.add_line_segments(
                "/pull", ends, paint, thickness=3.0, thickness_units="screen"
            )
