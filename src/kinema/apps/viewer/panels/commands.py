"""What the robot is told while it plays."""

from __future__ import annotations

from typing import Any

from ..commands import SLIDERS, WAYS, Command
from ..player import Player


class CommandPanel:
    """Sliders for actuators, or for targets of joints; random commands; keyframes."""

    def __init__(self, gui: Any, player: Player, keyframes: list[str]) -> None:
        self.player = player
        self._gui = gui
        self._way = gui.add_dropdown("Commands", WAYS, initial_value=player.commands.way)
        self._way.on_update(lambda _: self._choose())
        if keyframes:
            self._add_keyframes(keyframes)
        self._folder = gui.add_folder("Sliders")
        self._shown: list[Command] = []
        self._handles: list[Any] = []
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
