"""The viewer: connects displayed models, page, panels, mouse dragging and simulation."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError, Severity, write_file
from kinema.scene import Scene

from .displayed_model import CHANGED_COLOR, MISSING_COLOR, WORLD, DisplayedModel, ElementRef, find_differences, to_numpy
from .drag import DragInteraction
from .ik_target import IKTargets
from .layers import Layers
from .panels import (
    DRIVE_IK,
    DrivePanel,
    IKPanel,
    JointPanel,
    PlotPanel,
    QualityPanel,
    RecordingPanel,
    SimulationPanel,
    TreePanel,
    add_diagnostics_panel,
    add_layers_panel,
)
from .panels.display_panels import IMAGE_SIZE, encode_png
from .render_quality import AUTOMATIC, FAST, FULL, RenderQuality
from .scene_view import DEFAULT_VIEW, SELECTION_COLOR, EnvironmentGrid, SceneView
from .server import PageServer, inject_script
from .simulation import SimulationPlayer
from .teleoperation import DRIVE_INTERVAL, DRIVE_PATH, VelocityCommand, drive_wheels, find_wheels

# --------------------------------------------------------------------------------------------------------------- viewer

_PANEL_INTERVAL, _SLIDER_INTERVAL = 0.2, 0.6
"""Seconds between updates of plots and clocks, and of sliders, while something moves."""
PACE_PATH = "/kinema/pace"
"""Where browsers tell how fast they draw."""
_SEVERITY_COLORS = {Severity.ERROR: (224, 49, 49), Severity.WARNING: (245, 140, 0), Severity.NOTE: (90, 150, 220)}


class Viewer:
    """Page with displayed models, panels and simulation; `address` is the URL to open in a browser."""

    def __init__(
        self,
        page: PageServer,
        models: Sequence[DisplayedModel],
        n_envs: int = 1,
        scene: Scene | None = None,
        *,
        simple_shading: bool = False,
    ) -> None:
        self.page = page
        self.quality = RenderQuality(FAST if simple_shading else AUTOMATIC)
        """How richly it is drawn: by choice, or as fast as the browsers of visitors are."""
        self.quality.on_change = self._schedule_redraw
        self.viser = page.viser
        self.lock = threading.RLock()
        self.selected: ElementRef | None = None
        self.env = 0
        self.n_envs = n_envs
        self.close_callbacks: list[Callable[[], None]] = []
        """What is to be ended with the viewer."""
        self._compares_files = scene is None
        """Whether two models are two files that are compared, not two entities of a scene."""
        self.env_grid: EnvironmentGrid | None = None
        """Environments side by side, while they are shown."""
        self._last_panel_update = self._last_slider_update = 0.0
        self._difference_nodes: list[Any] = []
        self._velocity_command = VelocityCommand()
        self._show_models(models, scene)
        self.viser.on_client_connect(lambda client: self.frame_camera(client, DEFAULT_VIEW))
        page.authenticator.handlers[PACE_PATH] = self._handle_pace_report
        page.authenticator.handlers[DRIVE_PATH] = self._handle_drive_report
        page.authenticator.transform_response = lambda response: inject_script(
            response, antialias=self.quality.choice == FULL
        )

    @property
    def address(self) -> str:
        """URL to open in a browser, with the token if required."""
        return self.page.address

    def _repr_html_(self) -> str:
        """Page embedded in a notebook."""
        return f"<iframe src='{escape(self.address)}' width='100%' height='560' style='border:0'></iframe>"

    def __repr__(self) -> str:
        return f"<Viewer of {', '.join(e.title for e in self.models)} at {self.address}>"

    # --------------------------------------------------------------------------------------------------- building

    def _show_models(
        self,
        models: Sequence[DisplayedModel],
        scene: Scene | None = None,
        previous_player: SimulationPlayer | None = None,
    ) -> None:
        self.models = list(models)
        self.scene_view = SceneView(self.viser, models, simple_shading=self.quality.is_fast)
        self.player = SimulationPlayer(models, self.n_envs, scene, self.scene_view.floor_pose)
        if previous_player is not None:
            self.player.copy_settings(previous_player)
        self.n_envs = self.player.n_envs
        self.player.on_frame = self.refresh
        self.player.on_state = self._show_state
        self.scene_view.on_pick = self._handle_pick
        self.player.drive = self._apply_velocity_command
        self._drag_interaction = DragInteraction(self)
        self.ik_targets = IKTargets(self)
        self._wheels = {model.index: wheels for model in self.models if (wheels := find_wheels(model))}
        self.scene_view.on_visual_added.append(self._drag_interaction.enable)
        self.scene_view.build()
        self.layers = Layers(self.scene_view)
        self._add_panels()
        self._show_differences()
        if scene is not None:
            self.refresh()

    def _add_panels(self) -> None:
        gui, gate = self.viser.gui, self.page.authenticator
        with self.viser.atomic():
            gui.reset()
            gui.set_panel_label(" · ".join(e.title for e in self.models) or "Kinema")
            self.simulation_panel = SimulationPanel(gui, self)
            tabs = gui.add_tab_group()
            with tabs.add_tab("Robot"):
                self.tree_panel = TreePanel(gui, self.models, gate, self.select)
            with tabs.add_tab("Joints"):
                self.joint_panel = JointPanel(gui, self.models, self.move_joint)
            with tabs.add_tab("Control"):
                IKPanel(gui, self.ik_targets, self._add_ik_target)
                wheeled = [self.models[i].title for i in self._wheels]
                self.drive_panel = DrivePanel(gui, self._velocity_command, wheeled, self.simulation_panel.drive_mark)
                keyframes = [k.name for e in self.models for r in (*e.robots, e.description) for k in r.keyframes]
                keyframes = list(dict.fromkeys(filter(None, keyframes)))
                self.command_panel = self.simulation_panel.command_panel
                self.command_panel.add_sliders(keyframes)
            with tabs.add_tab("Layers"):
                self.quality_panel = QualityPanel(gui, self.quality)
                add_layers_panel(gui, self.layers, self.set_layer)
            with tabs.add_tab("Checks"):
                self._add_differences(gui)
                add_diagnostics_panel(gui, self.models, gate, self._show_diagnostic)
            with tabs.add_tab("Plots"):
                self.plot_panel = PlotPanel(gui, self.player, self.models, self.show_compiling, self.notify)
            with tabs.add_tab("Record"):
                self.recording_panel = RecordingPanel(
                    gui, self.player, self._shown_envs, self.show_compiling, self.notify
                )

    def _add_differences(self, gui: Any) -> None:
        compares = len(self.models) == 2 and self._compares_files
        self.differences = find_differences(*self.models) if compares else []
        if compares:
            texts = dict.fromkeys(d.text for d in self.differences)
            lines = "".join(f"<li>{escape(text)}</li>" for text in texts) or "<li>none: both say the same</li>"
            gui.add_html(f"<div style='padding:.3em .8em;font-size:.82em'><b>Differences</b><ul>{lines}</ul></div>")

    def _show_differences(self) -> None:
        """Colour the elements in which two models differ."""
        worst: dict[ElementRef, bool] = {}
        for difference in self.differences:
            worst[difference.element] = worst.get(difference.element, False) or difference.is_missing
        with self.viser.atomic():
            for part, missing in worst.items():
                self._difference_nodes += self.scene_view.add_color_overlay(
                    part, MISSING_COLOR if missing else CHANGED_COLOR, "difference", 0.5
                )

    def replace_models(self, models: Sequence[DisplayedModel]) -> None:
        """Replace the displayed models, keeping joint coordinates and layers where possible."""
        with self.lock:
            values: dict[str, Array] = {}
            for exhibit in reversed(self.models):
                values |= exhibit.slider_values()
            layers = self.layers.enabled
            self.player.close()
            self.env_grid, self._difference_nodes, self.selected = None, [], None
            for exhibit in models:
                known = exhibit.slider_values()
                exhibit.set_slider_values({n: v for n, v in values.items() if n in known and len(v) == len(known[n])})
            self._show_models(models, previous_player=self.player)
            for name in layers:
                self.layers.set_enabled(name, True)
            self.refresh()

    # ---------------------------------------------------------------------------------------------------- showing

    def refresh(self) -> None:
        """Update the scene to the current state."""
        with self.lock, self.player.lock, self.viser.atomic():
            simulated = self.player.scene is not None
            for exhibit in self.models:
                if simulated and self.env_grid is not None:
                    self.env_grid.set_link_poses(exhibit, exhibit.simulated_poses(list(range(self.env_grid.n_envs))))
                elif simulated:
                    poses = exhibit.simulated_poses([self.env])
                    self.scene_view.set_link_poses(exhibit, {link: (p[0], q[0]) for link, (p, q) in poses.items()})
                    self.scene_view.set_present(exhibit, bool(exhibit.is_present([self.env])[0]))
                else:
                    found = exhibit.link_poses()
                    self.scene_view.set_link_poses(
                        exhibit, {link: (p.position, p.quaternion) for link, p in found.items()}
                    )
            self._refresh_dynamic_layers()
            self.ik_targets.follow_links()
            if self.simulation_panel.follow:
                self.scene_view.follow(self._followed_link())
            if simulated:
                self.plot_panel.sample(self.env)
            now = time.perf_counter()
            if now - self._last_panel_update > _PANEL_INTERVAL or not self.player.playing:
                self._last_panel_update = now
                self._refresh_panels()

    def update(self) -> None:
        """Draw the current state of a scene that a program steps; call it after your own steps.

        The spring of a dragged link is applied to the steps that follow.
        """
        if not self.player.playing:
            self._drag_interaction.is_deferred = True
            self._drag_interaction.handle_pending()
        self.refresh()

    def _shown_envs(self) -> list[int]:
        return [self.env] if self.env_grid is None else list(range(self.env_grid.n_envs))

    def _refresh_dynamic_layers(self) -> None:
        if "Tendons" in self.layers.enabled:
            self.layers.draw_tendons()
        if "Contacts" in self.layers.enabled and self.player.scene is not None and self.player.scene.contacts:
            grid = self.env_grid
            found = self.player.scene.get_contacts(self._shown_envs())
            valid, places = to_numpy(found["valid_mask"]), to_numpy(found["position"])
            places = places if grid is None else places + grid.env_offsets[:, None]
            self.layers.draw_contacts(places[valid], to_numpy(found["force_b"])[valid])
        self._drag_interaction.draw_spring()

    def _refresh_panels(self) -> None:
        self.drive_panel.show_command()
        if self.player.scene is not None:
            self.command_panel.refresh()
            idle = "stepped" if self._drag_interaction.is_deferred else "paused"
            self.simulation_panel.show_state(
                "failed" if self.player.error_message else "playing" if self.player.playing else idle
            )
        if self._last_panel_update - self._last_slider_update > _SLIDER_INTERVAL or not self.player.playing:
            self._last_slider_update = self._last_panel_update
            for exhibit in self.models if self.player.scene is not None else []:
                exhibit.read_joints_from_simulation(self.env)
            self.joint_panel.refresh()

    def _handle_pace_report(self, query: str) -> None:
        """Process the frame-rate report of a browser, which limits the update rate."""
        self.quality.handle_report(query, is_moving=self.player.playing)
        self.player.frame_interval = 1.0 / self.quality.send_rate

    def _schedule_redraw(self) -> None:
        """Request a redraw after a change of render quality."""
        threading.Thread(target=self._redraw, name="kinema-drawing", daemon=True).start()  # not in a browser's request

    def _redraw(self) -> None:
        with self.lock, self.viser.atomic():
            self.scene_view.set_simple_shading(self.quality.is_fast)
            if self.env_grid is not None:
                self.env_grid.remove()
                self.env_grid = self._make_env_grid()
                self.refresh()
            self.quality_panel.update_text()

    def _make_env_grid(self) -> EnvironmentGrid:
        grid = EnvironmentGrid(self.scene_view, self.n_envs, is_coarse=self.quality.is_fast)
        for (model, link), node in grid.nodes.items():
            self._drag_interaction.enable(node, ElementRef(model, "link", link))
        return grid

    def _show_state(self, state: str) -> None:
        self.simulation_panel.show_state(state)
        if state == "failed":
            self.notify(self.player.error_message)

    def show_compiling(self) -> None:
        """Show the compiling state immediately, before an operation that blocks."""
        self.simulation_panel.show_state("compiling")
        self.viser.flush()

    def notify(self, text: str) -> None:
        """Show a notification to all clients."""
        for client in self.viser.get_clients().values():
            client.add_notification("Kinema", text, auto_close_seconds=8.0)

    # -------------------------------------------------------------------------------------------- what users do

    def select(self, element: ElementRef | None, color: tuple[int, int, int] = SELECTION_COLOR) -> None:
        """Highlight an element in the scene and in the tree."""
        with self.lock:
            self.selected = element
            self.scene_view.highlight(element, color)
            self.tree_panel.show_element(element)
            self.plot_panel.select_element(element)

    def _handle_pick(self, element: ElementRef) -> None:
        """Select the link on a click, and the shape on a second click."""
        link = ElementRef(element.model_index, "link", element.name)
        again = self.selected is not None and self.selected.name == element.name and self.selected.kind != "joint"
        self.select(element if again and self.selected != element else link)

    def _show_diagnostic(self, element: ElementRef | None, severity: Severity) -> None:
        self.select(element, _SEVERITY_COLORS[severity])
        if element is None:
            self.notify("This is about the file as a whole, not about one part of it.")

    def move_joint(self, joint: str, values: Array) -> None:
        """Set one joint, in all models that have it, to slider values."""
        with self.lock, self.player.lock:
            closed = True
            for exhibit in (e for e in self.models if joint in e.joints):
                closed &= exhibit.set_slider_values({joint: values})
            if self.player.scene is not None:
                for exhibit in self.models:
                    if exhibit.entity is not None:
                        exhibit.write_joints_to_simulation(None if self.env_grid is not None else self.env)
                        self.player.control_inputs.hold(exhibit.entity, self.env)
            self.refresh()
            if not closed:
                self.joint_panel.refresh()

    def set_layer(self, layer: str, on: bool) -> None:
        """Show or hide a layer."""
        with self.lock:
            if layer == "Contacts" and on and self.player.ensure_built():
                self.show_compiling()  # what tells of contacts, when it is asked for the first time
            self.layers.set_enabled(layer, on and not (layer == "Visual" and self.env_grid is not None))
            if not on and layer == "Contacts":
                self.layers.draw_contacts(np.zeros((0, 3)), np.zeros((0, 3)))
            if not on and layer == "Tendons":
                self.layers.draw_tendons()
            self.refresh()

    @property
    def velocity_command(self) -> Array:
        """Velocity commanded by keyboard, gamepad or pad, (4,): forward, left, up [m/s] and yaw rate [rad/s].

        Zero unless "Drive" is switched on in the page.
        """
        return self._velocity_command.value

    def _handle_drive_report(self, query: str) -> None:
        """Process the report of a browser whose keys or sticks are deflected."""
        self._velocity_command.handle_report(query)
        if not self.player.playing:
            if self.drive_panel.choice == DRIVE_IK:
                self.ik_targets.jog(self.velocity_command, DRIVE_INTERVAL)
            self.drive_panel.show_command()

    def drive(self, choice: str) -> None:
        """Choose what keyboard, gamepad and pad drive: title of a wheeled model, `IK target`, `program` or `off`.

        With `program`, only `velocity_command` changes.
        """
        if choice not in self.drive_panel.choices:
            raise KinemaError(f"drive: {choice!r} is none of {', '.join(self.drive_panel.choices)}")
        self.drive_panel.choice = choice

    def follow(self, enabled: bool = True) -> None:
        """Let the camera move with the selected link, or with the first robot."""
        self.simulation_panel.follow = enabled

    def set_max_velocity(self, speed: float, yaw_rate: float) -> None:
        """Set the commanded speed [m/s] and yaw rate [rad/s] at full deflection."""
        self.drive_panel.set_max_velocity(speed, yaw_rate)

    def _apply_velocity_command(self, duration: float) -> None:
        """Apply the velocity command before steps of a duration [s]."""
        choice = self.drive_panel.choice
        if choice == DRIVE_IK:
            self.ik_targets.jog(self.velocity_command, duration)
        for index, wheels in self._wheels.items():
            model = self.models[index]
            is_driven = choice == model.title
            if model.entity is not None and (is_driven or model.entity in self.player.control_inputs.driven):
                command = self.velocity_command if is_driven else np.zeros(4)
                drive_wheels(model, wheels, command, self.player.control_inputs)

    def _add_ik_target(self, label: str) -> None:
        self.show_compiling()
        if self.ik_targets.add(label) is None:
            self.notify(self.player.error_message or "This part cannot be moved by inverse kinematics.")
        self.refresh()

    def choose_environment(self, number: int, side_by_side: bool) -> None:
        """Show one environment, or many side by side."""
        with self.lock:
            self.env = number
            if side_by_side and self.player.ensure_built() and self.env_grid is None:
                self.env_grid = self._make_env_grid()
            elif not side_by_side and self.env_grid is not None:
                self.env_grid.remove()
                self.env_grid = None
            for handle in self.scene_view.visuals:
                handle.visible = self.env_grid is None and "Visual" in self.layers.enabled
            self.refresh()

    def _followed_link(self) -> tuple[int, str] | None:
        """Model and name of the link that cameras follow: the selected one, else the base of the first that moves."""
        if self.selected is not None and self.selected.kind != "joint":
            return self.selected.model_index, self.selected.name
        for model in self.models:
            fixed = {WORLD, *model.static_links()}
            if (link := next((name for name in model.links if name not in fixed), None)) is not None:
                return model.index, link
        return None

    def frame_camera(self, client: Any, view: str) -> None:
        """Move the camera of a client to show everything, from one of `VIEWS`."""
        (self.scene_view if self.env_grid is None else self.env_grid).frame_camera(client, view)

    def screenshot(self, path: str | Path, size: tuple[int, int] = IMAGE_SIZE) -> None:
        """Write the view of the first client as a PNG; a client must be connected.

        Args:
            path: the file.
            size: rows and columns.
        """
        clients = list(self.viser.get_clients().values())
        if not clients:
            raise KinemaError(f"nobody looks at {self.address}: open it in a browser first")
        write_file(path, encode_png(clients[0].get_render(*size, transport_format="png", timeout=60.0)))

    # --------------------------------------------------------------------------------------------------- closing

    def wait(self, announcement: str = "") -> None:
        """Block until the user interrupts, or the process is asked to terminate, which ends it with status 143.

        Args:
            announcement: text for the standard output.
        """

        def terminate(*_: object) -> None:
            raise SystemExit(128 + signal.SIGTERM)

        is_main = threading.current_thread() is threading.main_thread()
        previous = signal.signal(signal.SIGTERM, terminate) if is_main else None
        try:
            sys.stdout.write(announcement)
            sys.stdout.flush()
            while True:
                time.sleep(3600.0)
        except KeyboardInterrupt:
            pass
        finally:
            if is_main:
                signal.signal(signal.SIGTERM, previous)
            self.close()

    def close(self) -> None:
        """Stop page, simulation and threads."""
        for close in self.close_callbacks:
            close()
        self.close_callbacks.clear()
        self.player.close()
        self.page.stop()
