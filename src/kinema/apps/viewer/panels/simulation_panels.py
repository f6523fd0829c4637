"""Panels on the simulation: play controls, base, environments, control inputs."""

from __future__ import annotations

from html import escape
from typing import Any, Protocol

from ..scene_view import DEFAULT_VIEW, MAX_SHOWN_ENVS, VIEW_DIRECTIONS
from ..simulation import (
    BASE_CHOICES,
    BASE_FROM_FILE,
    CONTROL_SOURCES,
    NO_CONTROL,
    RANDOM,
    SLIDERS,
    ControlInput,
    SimulationPlayer,
    has_unspecified_base,
)

# ------------------------------------------------------------------------------------------------------- control inputs

_NOT_BUILT_HTML = (
    "<div style='padding:.3em .8em;opacity:.7'>Play or Step builds the scene; its control inputs are shown then.</div>"
)
_SOURCE_HINT = "random: other targets every half second; let go: nothing holds the joints"


class CommandPanel:
    """Choice of the control source, always visible; sliders and keyframes on a tab."""

    def __init__(self, gui: Any, player: SimulationPlayer) -> None:
        self.player = player
        self._gui = gui
        self._source_dropdown = gui.add_dropdown(
            "Commands", CONTROL_SOURCES, initial_value=player.control_inputs.source, hint=_SOURCE_HINT
        )
        self._source_dropdown.on_update(lambda event: None if event.client is None else self._set_source())
        self._folder: Any = None
        self._shown: list[ControlInput] | None = None
        self._handles: list[Any] = []

    def add_sliders(self, keyframes: list[str]) -> None:
        """Add sliders of actuators or joint targets, and a choice of keyframes."""
        if keyframes:
            self._add_keyframes(keyframes)
        self._folder = self._gui.add_folder("Sliders")
        self.refresh()

    def _set_source(self) -> None:
        self.player.control_inputs.source = self._source_dropdown.value
        self.player.mark_commands_changed()

    def _add_keyframes(self, names: list[str]) -> None:
        chosen = self._gui.add_dropdown("Keyframe", names)
        button = self._gui.add_button("Go to keyframe")

        def go(_: Any) -> None:
            self.player.reset(chosen.value)

        button.on_click(go)

    def refresh(self) -> None:
        """Create the sliders once the control inputs are known, and set them to the control inputs."""
        commands = self.player.control_inputs.inputs
        if commands is self._shown:
            for command, slider in zip(commands, self._handles, strict=False):
                if abs(command.value - slider.value) > slider.step:
                    slider.value = command.value  # set by inverse kinematics or driving
            if self._source_dropdown.value != self.player.control_inputs.source:
                self._source_dropdown.value = self.player.control_inputs.source
            return
        self._shown = commands
        for handle in self._handles:
            handle.remove()
        with self._folder:
            self._handles = [self._slider(command) for command in commands]
            if not self.player.control_inputs.entities:
                self._handles = [self._gui.add_html(_NOT_BUILT_HTML)]

    def _slider(self, command: ControlInput) -> Any:
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

        def moved(event: Any) -> None:
            if event.client is None:  # moved by the viewer
                return
            command.value = slider.value
            self.player.control_inputs.source = SLIDERS
            self._source_dropdown.value = SLIDERS
            self.player.mark_commands_changed()

        slider.on_update(moved)
        return slider


# ------------------------------------------------------------------------------ playback, base, camera and environments

_STATE_TEXTS = {
    "still": "Not simulated yet: sliders under Joints move the robot, Play simulates it.",
    "compiling": "Compiling the robot; this happens once for each robot and way of control ...",
    "paused": "Paused: sliders under Joints move the robot.",
    "stepped": "Stepped by a program.",
}
_PLAYING_TEXTS = {
    SLIDERS: "Playing: held by the sliders under Control. Choose Commands: random, and it moves.",
    RANDOM: "Playing: random commands, new ones every half second.",
    NO_CONTROL: "Playing: nothing holds the joints.",
}
_UNSPECIFIED_BASE_TEXT = (
    "Its file does not say what holds its base: here it is bolted down. Base: free lets it stand and fall."
)


class SimulationPanelHost(Protocol):
    """Interface of the viewer that the simulation panel uses."""

    player: SimulationPlayer

    def choose_environment(self, number: int, side_by_side: bool) -> None:
        """Show one environment, or all side by side."""

    def refresh(self) -> None:
        """Update the scene to the current state."""

    def frame_camera(self, client: Any, view: str) -> None:
        """Move the camera of a client to show everything, from one of `VIEWS`."""


class SimulationPanel:
    """Playback, base, camera and environment controls, visible above all tabs."""

    def __init__(self, gui: Any, host: SimulationPanelHost) -> None:
        player = host.player
        self._player = player
        self._base_assumed_fixed = False
        """Whether there is a robot whose base is bolted down because its file does not say."""
        buttons = gui.add_button_group("Simulation", ("Play", "Pause", "Step", "Reset"))
        speed = gui.add_slider("Speed", min=0.05, max=4.0, step=0.05, initial_value=player.speed, hint="1 is real time")
        self.command_panel = CommandPanel(gui, player)
        """Panel of the control inputs of the robot."""
        if player.scene is None:
            self._add_base(gui)
        views = gui.add_button_group("Look", tuple(VIEW_DIRECTIONS))
        self._follow = gui.add_checkbox("Follow", initial_value=False, hint="the camera moves with the robot")
        self._text = gui.add_html("")
        self.drive_mark = gui.add_html("")
        """Line of the velocity command, shown on all tabs."""
        self.show_state("still" if player.scene is None else "paused")

        def pressed(event: Any) -> None:
            match event.target.value:
                case "Play":
                    player.play()
                case "Pause":
                    player.pause()
                case "Step":
                    player.playing = False
                    player.step()
                    host.refresh()
                case "Reset":
                    player.reset()

        def set_speed(_: Any) -> None:
            player.speed = speed.value

        def look(event: Any) -> None:
            if event.client is not None:
                host.frame_camera(event.client, event.target.value)

        buttons.on_click(pressed)
        views.on_click(look)
        speed.on_update(set_speed)
        if player.n_envs > 1:
            self._add_environments(gui, host)

    def _add_base(self, gui: Any) -> None:
        self._base_assumed_fixed = has_unspecified_base(self._player.models)
        hint = _UNSPECIFIED_BASE_TEXT if self._base_assumed_fixed else "what holds the robot; changed, it starts anew"
        base = gui.add_dropdown("Base", BASE_CHOICES, initial_value=self._player.base_choice, hint=hint)

        def chosen(_: Any) -> None:
            self._player.set_base(base.value)
            if not self._player.playing:
                self.show_state("still")

        base.on_update(chosen)

    def _add_environments(self, gui: Any, host: SimulationPanelHost) -> None:
        count = host.player.n_envs
        number = gui.add_slider("Environment", min=0, max=count - 1, step=1, initial_value=0)
        together = gui.add_checkbox(f"{min(count, MAX_SHOWN_ENVS)} side by side", initial_value=False)

        def changed(event: Any) -> None:
            host.choose_environment(number.value, together.value)
            if event.client is not None and event.target is together:
                host.frame_camera(event.client, DEFAULT_VIEW)

        number.on_update(changed)
        together.on_update(changed)

    @property
    def follow(self) -> bool:
        """Whether cameras move with the robot."""
        return self._follow.value

    @follow.setter
    def follow(self, enabled: bool) -> None:
        self._follow.value = enabled

    def show_state(self, state: str) -> None:
        """Show the state of the simulation."""
        text = _STATE_TEXTS.get(state) or f"It cannot be simulated: {self._player.error_message}"
        if state == "playing":
            told = self._player.control_inputs
            text = (
                _PLAYING_TEXTS[told.source]
                if told.inputs
                else "Playing: there is nothing here that can be told anything."
            )
            text += (
                f" {_UNSPECIFIED_BASE_TEXT}"
                if self._base_assumed_fixed and self._player.base_choice == BASE_FROM_FILE
                else ""
            )
        scene = self._player.scene
        clock = "" if scene is None else f" <span style='float:right'>{scene.time:.2f} s</span>"
        self._text.content = f"<div style='padding:0 .8em .5em;opacity:.75;font-size:.85em'>{clock}{escape(text)}</div>"
