"""What the robot is told while it plays."""

from __future__ import annotations

from typing import Any

from ..commands import SLIDERS, WAYS, Command
from ..player import Player

_UNKNOWN = "<div style='padding:.3em .8em;opacity:.7'>Play or Step first: what it can be told is known then.</div>"
_HINT = "random: other targets every half second; let go: nothing holds the joints"


class CommandPanel:
    """How the robot is told something, which is always seen; below it sliders and keyframes, under a tab."""

    def __init__(self, gui: Any, player: Player) -> None:
        self.player = player
        self._gui = gui
        self._way = gui.add_dropdown("Commands", WAYS, initial_value=player.commands.way, hint=_HINT)
        self._way.on_update(lambda _: self._choose())
        self._folder: Any = None
        self._shown: list[Command] | None = None
        self._handles: list[Any] = []

    def add_sliders(self, keyframes: list[str]) -> None:
        """Sliders for actuators, or for targets of joints; and keyframes of these names."""
        if keyframes:
            self._add_keyframes(keyframes)
        self._folder = self._gui.add_folder("Sliders")
        self.refresh()

    def _choose(self) -> None:
        self.player.commands.way = self._way.value
        self.player.tell()

    def _add_keyframes(self, names: list[str]) -> None:
        chosen = self._gui.add_dropdown("Keyframe", names)
        button = self._gui.add_button("Go to keyframe")

        def go(_: Any) -> None:
            self.player.reset(chosen.value)

        button.on_click(go)

    def refresh(self) -> None:
        """Make the sliders once it is known what there is to be told."""
        commands = self.player.commands.commands
        if commands is self._shown:
            return
        self._shown = commands
        for handle in self._handles:
            handle.remove()
        with self._folder:
            self._handles = [self._slider(command) for command in commands]
            if not self.player.commands.entities:
                self._handles = [self._gui.add_html(_UNKNOWN)]

    def _slider(self, command: Command) -> Any:
        span = command.upper - command.lower
        slider = self._gui.add_slider(
            command.label,
            min=command.lower,
            max=command.upper if span > 0 else command.lower + 1e-9,
            step=max(span / 1000, 1e-9),
            initial_value=command.value,
            hint="actuator" if command.is_actuator else "target of the joint",
            disabled=span <= 0,
        )

        def moved(_: Any) -> None:
            command.value = slider.value
            self.player.commands.way = SLIDERS
            self._way.value = SLIDERS
            self.player.tell()

        slider.on_update(moved)
        return slider
