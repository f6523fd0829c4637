"""Panels of teleoperation: targets of inverse kinematics, and driving by keyboard, gamepad or pad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ik_target import IKTargets
from ..teleoperation import VelocityCommand

# --------------------------------------------------------------------------------------------------- inverse kinematics

_IK_HINT = "a gizmo that the part follows: its joints while paused, its position targets while playing"


class IKPanel:
    """Choice of the parts that follow gizmos by inverse kinematics."""

    def __init__(self, gui: Any, targets: IKTargets, add: Callable[[str], object]) -> None:
        labels = list(targets.choices())
        if not labels:
            gui.add_html("<div style='padding:.3em .8em;opacity:.7'>Nothing here has joints to be solved for.</div>")
            return
        part = gui.add_dropdown("IK target", labels, hint=_IK_HINT)
        orientation = gui.add_checkbox(
            "Orientation too", targets.keep_orientation, hint="for chains of six or more degrees of freedom"
        )
        buttons = gui.add_button_group("Targets", ("Add", "Remove all"))

        def pressed(_: Any) -> None:
            if buttons.value == "Add":
                add(part.value)
            else:
                targets.remove_all()

        def turned(_: Any) -> None:
            targets.keep_orientation = orientation.value
            for target in targets.targets:
                target.gizmo.disable_rotations = not targets.has_orientation(target)

        buttons.on_click(pressed)
        orientation.on_update(turned)


# -------------------------------------------------------------------------------------------------------------- driving

DRIVE_OFF, DRIVE_IK, DRIVE_PROGRAM = "off", "IK target", "program"
"""Choices of what is driven, besides the wheels of a model."""
_DRIVE_HINT = "program: a script reads viewer.velocity_command"
_PAD = """<div style='display:flex;gap:1em;align-items:center;padding:.4em .8em;font-size:.82em'>
<div id='kinema-pad' title='drag: forward, back and turn' style='width:90px;height:90px;flex:none;border-radius:50%;
border:1px solid #adb5bd;background:radial-gradient(#f8f9fa,#dee2e6);position:relative;touch-action:none;cursor:grab'>
<div style='width:30px;height:30px;border-radius:50%;background:#2662a0;position:absolute;left:29px;top:29px;
pointer-events:none'></div></div>
<div style='opacity:.75;line-height:1.55'><b>W S</b> forward, back<br><b>A D</b> turn left, right<br><b>Q E</b> sideways
<br><b>R F</b> up, down<br>Gamepad: left stick moves, right stick turns</div></div>"""
_DRIVING = "<span id='kinema-drive'></span>"
"""Mark by which the script of the page knows that keys drive."""


class DrivePanel:
    """Choice of what keyboard, gamepad and pad drive, and how fast."""

    def __init__(self, gui: Any, command: VelocityCommand, wheeled: Sequence[str], mark: Any) -> None:
        self._mark = mark
        self._command = command
        self.choices: tuple[str, ...] = (DRIVE_OFF, *wheeled, DRIVE_IK, DRIVE_PROGRAM)
        self._choice = gui.add_dropdown("Drive", self.choices, initial_value=DRIVE_OFF, hint=_DRIVE_HINT)
        self._speed = gui.add_slider("m/s", min=0.05, max=5.0, step=0.05, initial_value=command.max_speed)
        self._turn = gui.add_slider("rad/s", min=0.1, max=6.0, step=0.1, initial_value=command.max_yaw_rate)
        gui.add_html(_PAD)

        def limited(_: Any) -> None:
            command.max_speed, command.max_yaw_rate = self._speed.value, self._turn.value

        self._speed.on_update(limited)
        self._turn.on_update(limited)
        self._choice.on_update(lambda _: self.show_command())
        self.show_command()

    @property
    def choice(self) -> str:
        """What is driven: a model with wheels, or one of the `DRIVE_*`."""
        return self._choice.value

    @choice.setter
    def choice(self, choice: str) -> None:
        self._choice.value = choice

    def set_max_velocity(self, speed: float, yaw_rate: float) -> None:
        """Set the speed [m/s] and yaw rate [rad/s] at full deflection."""
        self._speed.value, self._turn.value = speed, yaw_rate
        self._command.max_speed, self._command.max_yaw_rate = speed, yaw_rate

    def show_command(self) -> None:
        """Show the velocity command while something is driven."""
        text = ""
        if self.choice != DRIVE_OFF:
            forward, lateral, vertical, yaw_rate = self._command.value
            moved = f"{forward:+.2f}, {lateral:+.2f}, {vertical:+.2f} m/s, {yaw_rate:+.2f} rad/s"
            text = f"<div style='padding:0 .8em .4em;opacity:.75;font-size:.85em'>{_DRIVING}Keys drive: {moved}</div>"
        if self._mark.content != text:
            self._mark.content = text
