"""Play, pause, step, reset, speed; which environment, or all side by side."""

from __future__ import annotations

from html import escape
from typing import Any, Protocol

from ..crowd import MOST
from ..player import Player

_WORDS = {
    "still": "Not simulated yet: sliders move the robot.",
    "compiling": "Compiling the robot; this happens once for each robot and way of control ...",
    "playing": "Playing.",
    "paused": "Paused: sliders move the robot.",
}


class Director(Protocol):
    """What this panel wants of the viewer."""

    player: Player

    def choose_environment(self, number: int, side_by_side: bool) -> None:
        """Show one environment, or all."""

    def refresh(self) -> None:
        """Draw everything where it is now."""

    def frame(self, client: Any) -> None:
        """Let a visitor look at everything."""


class PlayingPanel:
    """Always seen, above all tabs."""

    def __init__(self, gui: Any, director: Director) -> None:
        player = director.player
        self._player = player
        buttons = gui.add_button_group("Simulation", ("Play", "Pause", "Step", "Reset"))
        speed = gui.add_slider("Speed", min=0.05, max=4.0, step=0.05, initial_value=player.speed, hint="1 is real time")
        self._text = gui.add_html("")
        self.say("still" if player.scene is None else "paused")

        def pressed(event: Any) -> None:
            match event.target.value:
                case "Play":
                    player.play()
                case "Pause":
                    player.pause()
                case "Step":
                    player.playing = False
                    player.step()
                    director.refresh()
                case "Reset":
                    player.reset()

        def set_speed(_: Any) -> None:
            player.speed = speed.value

        buttons.on_click(pressed)
        speed.on_update(set_speed)
        if player.n_envs > 1:
            self._add_environments(gui, director)

    def _add_environments(self, gui: Any, director: Director) -> None:
        count = director.player.n_envs
        number = gui.add_slider("Environment", min=0, max=count - 1, step=1, initial_value=0)
        together = gui.add_checkbox(f"{min(count, MOST)} side by side", initial_value=False)

        def changed(event: Any) -> None:
            director.choose_environment(number.value, together.value)
            if event.client is not None and event.target is together:
                director.frame(event.client)

        number.on_update(changed)
        together.on_update(changed)

    def say(self, state: str) -> None:
        """Tell what goes on."""
        text = _WORDS.get(state) or f"It cannot be simulated: {self._player.fault}"
        scene = self._player.scene
        clock = "" if scene is None else f" <span style='float:right'>{scene.time:.2f} s</span>"
        self._text.content = f"<div style='padding:0 .8em;opacity:.75;font-size:.85em'>{escape(text)}{clock}</div>"
