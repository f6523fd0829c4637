"""Play, pause, step, reset, speed; what holds the base; where one looks from; which environment, or all."""

from __future__ import annotations

from html import escape
from typing import Any, Protocol

from ..commands import NOTHING, RANDOM, SLIDERS
from ..crowd import MOST
from ..grounding import BASES, SAID, is_unsaid
from ..player import Player
from ..stage import ALL, VIEWS
from .commands import CommandPanel

_WORDS = {
    "still": "Not simulated yet: sliders under Joints move the robot, Play simulates it.",
    "compiling": "Compiling the robot; this happens once for each robot and way of control ...",
    "paused": "Paused: sliders under Joints move the robot.",
}
_PLAYING = {
    SLIDERS: "Playing: held by the sliders under Commands. Choose Commands: random, and it moves.",
    RANDOM: "Playing: random commands, new ones every half second.",
    NOTHING: "Playing: nothing holds the joints.",
}
_UNSAID = "Its file does not say what holds its base: here it is bolted down. Base: free lets it stand and fall."


class Director(Protocol):
    """What this panel wants of the viewer."""

    player: Player

    def choose_environment(self, number: int, side_by_side: bool) -> None:
        """Show one environment, or all."""

    def refresh(self) -> None:
        """Draw everything where it is now."""

    def frame(self, client: Any, view: str) -> None:
        """Let a visitor look at everything, from one of `VIEWS`."""


class PlayingPanel:
    """Always seen, above all tabs."""

    def __init__(self, gui: Any, director: Director) -> None:
        player = director.player
        self._player = player
        self._bolted = False
        """Whether there is a robot whose base is bolted down because its file does not say."""
        buttons = gui.add_button_group("Simulation", ("Play", "Pause", "Step", "Reset"))
        speed = gui.add_slider("Speed", min=0.05, max=4.0, step=0.05, initial_value=player.speed, hint="1 is real time")
        self.commands = CommandPanel(gui, player)
        """How the robot is told something."""
        if player.scene is None:
            self._add_base(gui)
        views = gui.add_button_group("Look", tuple(VIEWS))
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

        def look(event: Any) -> None:
            if event.client is not None:
                director.frame(event.client, event.target.value)

        buttons.on_click(pressed)
        views.on_click(look)
        speed.on_update(set_speed)
        if player.n_envs > 1:
            self._add_environments(gui, director)

    def _add_base(self, gui: Any) -> None:
        self._bolted = is_unsaid(self._player.exhibits)
        hint = _UNSAID if self._bolted else "what holds the robot; changed, it starts anew"
        base = gui.add_dropdown("Base", BASES, initial_value=self._player.base, hint=hint)

        def chosen(_: Any) -> None:
            self._player.choose_base(base.value)
            if not self._player.playing:
                self.say("still")

        base.on_update(chosen)

    def _add_environments(self, gui: Any, director: Director) -> None:
        count = director.player.n_envs
        number = gui.add_slider("Environment", min=0, max=count - 1, step=1, initial_value=0)
        together = gui.add_checkbox(f"{min(count, MOST)} side by side", initial_value=False)

        def changed(event: Any) -> None:
            director.choose_environment(number.value, together.value)
            if event.client is not None and event.target is together:
                director.frame(event.client, ALL)

        number.on_update(changed)
        together.on_update(changed)

    def say(self, state: str) -> None:
        """Tell what goes on."""
        text = _WORDS.get(state) or f"It cannot be simulated: {self._player.fault}"
        if state == "playing":
            told = self._player.commands
            text = _PLAYING[told.way] if told.commands else "Playing: there is nothing here that can be told anything."
            text += f" {_UNSAID}" if self._bolted and self._player.base == SAID else ""
        scene = self._player.scene
        clock = "" if scene is None else f" <span style='float:right'>{scene.time:.2f} s</span>"
        self._text.content = f"<div style='padding:0 .8em .5em;opacity:.75;font-size:.85em'>{clock}{escape(text)}</div>"
