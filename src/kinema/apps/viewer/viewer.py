"""The viewer: what is shown, the page that shows it, and the simulation behind it, tied together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from kinema.foundation import Array, KinemaError, Severity
from kinema.scene import Scene

from .crowd import Crowd
from .differences import CHANGED, MISSING, differences
from .dragging import Dragging
from .exhibit import Exhibit, Part
from .layers import Layers
from .panels import (
    DrawingPanel,
    JointPanel,
    PlayingPanel,
    PlotPanel,
    TreePanel,
    add_checks,
    add_layers,
    add_pictures,
)
from .player import Player
from .quality import AUTOMATIC, FAST, FULL, Quality
from .recording import SIZE, png
from .script import with_script
from .server import Page
from .stage import CHOSEN, Stage

_SLOW, _SLIDERS = 0.2, 0.6
"""Seconds between updates of plots and clocks, and of sliders, while something moves."""
PACE = "/kinema/pace"
"""Where browsers tell how fast they draw."""
_COLORS = {Severity.ERROR: (224, 49, 49), Severity.WARNING: (245, 140, 0), Severity.NOTE: (90, 150, 220)}


class Viewer:
    """A page that shows exhibits. `address` is what to open in a browser."""

    def __init__(
        self,
        page: Page,
        exhibits: Sequence[Exhibit],
        n_envs: int = 1,
        scene: Scene | None = None,
        *,
        plain: bool = False,
    ) -> None:
        self.page = page
        self.quality = Quality(FAST if plain else AUTOMATIC)
        """How richly it is drawn: by choice, or as fast as the browsers of visitors are."""
        self.quality.on_change = self._draw_again
        self.viser = page.viser
        self.lock = threading.RLock()
        self.selected: Part | None = None
        self.env = 0
        self.n_envs = n_envs
        self.closers: list[Callable[[], None]] = []
        """What is to be ended with the viewer."""
        self._crowd: Crowd | None = None
        self._together = False
        self._last_slow = self._last_sliders = 0.0
        self._marks: list[Any] = []
        self._open(exhibits, scene)
        page.gate.paths[PACE] = self._paced
        page.gate.dress = lambda response: with_script(response, smooth=self.quality.choice == FULL)

    @property
    def address(self) -> str:
        """What to open in a browser, with the token where one is needed."""
        return self.page.address

    def _repr_html_(self) -> str:
        """In a notebook: the page itself."""
        return f"<iframe src='{escape(self.address)}' width='100%' height='560' style='border:0'></iframe>"

    def __repr__(self) -> str:
        return f"<Viewer of {', '.join(e.title for e in self.exhibits)} at {self.address}>"

    # --------------------------------------------------------------------------------------------------- building

    def _open(self, exhibits: Sequence[Exhibit], scene: Scene | None = None, like: Player | None = None) -> None:
        self.exhibits = list(exhibits)
        self.stage = Stage(self.viser, exhibits, plain=self.quality.fast)
        self.player = Player(exhibits, self.n_envs, scene, self.stage.floor)
        if like is not None:
            self.player.be_like(like)
        self.n_envs = self.player.n_envs
        self.player.on_frame = self.refresh
        self.player.on_state = self._say
        self.stage.on_pick = self._picked
        self._dragging = Dragging(self)
        self.stage.on_visual.append(self._dragging.listen)
        self.stage.build()
        self.layers = Layers(self.stage)
        self._add_panels()
        self._show_differences()
        if scene is not None:
            self.refresh()

    def _add_panels(self) -> None:
        gui, gate = self.viser.gui, self.page.gate
        with self.viser.atomic():
            gui.reset()
            gui.set_panel_label(" · ".join(e.title for e in self.exhibits) or "Kinema")
            self.playing = PlayingPanel(gui, self)
            tabs = gui.add_tab_group()
            with tabs.add_tab("Robot"):
                self.tree = TreePanel(gui, self.exhibits, gate, self.select)
            with tabs.add_tab("Joints"):
                self.joints = JointPanel(gui, self.exhibits, self.move)
            with tabs.add_tab("Commands"):
                keyframes = [k.name for e in self.exhibits for r in (*e.robots, e.description) for k in r.keyframes]
                keyframes = list(dict.fromkeys(filter(None, keyframes)))
                self.commands = self.playing.commands
                self.commands.add_sliders(keyframes)
            with tabs.add_tab("Layers"):
                self.drawing = DrawingPanel(gui, self.quality)
                add_layers(gui, self.layers, self.switch)
            with tabs.add_tab("Checks"):
                self._add_differences(gui)
                add_checks(gui, self.exhibits, gate, self._show_diagnostic)
            with tabs.add_tab("Plots"):
                self.plots = PlotPanel(gui, self.player, self._say_compiling)
            with tabs.add_tab("Pictures"):
                add_pictures(gui, self.notify)

    def _add_differences(self, gui: Any) -> None:
        self.differences = differences(*self.exhibits) if len(self.exhibits) == 2 else []
        if len(self.exhibits) == 2:
            told = dict.fromkeys(d.text for d in self.differences)
            lines = "".join(f"<li>{escape(text)}</li>" for text in told) or "<li>none: both say the same</li>"
            gui.add_html(f"<div style='padding:.3em .8em;font-size:.82em'><b>Differences</b><ul>{lines}</ul></div>")

    def _show_differences(self) -> None:
        """Colours over what the two exhibits do not have in common."""
        worst: dict[Part, bool] = {}
        for difference in self.differences:
            worst[difference.part] = worst.get(difference.part, False) or difference.missing
        with self.viser.atomic():
            for part, missing in worst.items():
                self._marks += self.stage.paint(part, MISSING if missing else CHANGED, "difference", 0.5)

    def show_again(self, exhibits: Sequence[Exhibit]) -> None:
        """Show these instead, with joints and layers as they were as far as they are there."""
        with self.lock:
            values: dict[str, Array] = {}
            for exhibit in reversed(self.exhibits):
                values |= exhibit.values()
            layers = self.layers.on
            self.player.close()
            self._crowd, self._marks, self.selected = None, [], None
            for exhibit in exhibits:
                known = exhibit.values()
                exhibit.move({n: v for n, v in values.items() if n in known and len(v) == len(known[n])})
            self._open(exhibits, like=self.player)
            for name in layers:
                self.layers.switch(name, True)
            self.refresh()

    # ---------------------------------------------------------------------------------------------------- showing

    def refresh(self) -> None:
        """Draw everything where it is now."""
        with self.lock, self.player.lock, self.viser.atomic():
            simulated = self.player.scene is not None
            for exhibit in self.exhibits:
                if simulated and self._crowd is not None:
                    self._crowd.pose(exhibit, exhibit.simulated_poses(list(range(self._crowd.count))))
                elif simulated:
                    poses = exhibit.simulated_poses([self.env])
                    self.stage.pose(exhibit, {link: (p[0], q[0]) for link, (p, q) in poses.items()})
                else:
                    found = exhibit.poses()
                    self.stage.pose(exhibit, {link: (p.position, p.quaternion) for link, p in found.items()})
            self._refresh_marks()
            now = time.perf_counter()
            if now - self._last_slow > _SLOW or not self.player.playing:
                self._last_slow = now
                self._refresh_panels()

    update = refresh
    """Draw what a scene that was shown has come to; call it after your own steps."""

    def _refresh_marks(self) -> None:
        if "Tendons" in self.layers.on:
            self.layers.draw_tendons()
        if "Contacts" in self.layers.on and self.player.scene is not None and self.player.scene.contacts:
            found = self.player.scene.get_contacts([self.env])
            valid = found["valid_mask"][0]
            self.layers.draw_contacts(found["position"][0][valid], found["force_b"][0][valid])
        self._dragging.draw()

    def _refresh_panels(self) -> None:
        if self.player.scene is not None:
            self.plots.sample(self.env)
            self.commands.refresh()
            self.playing.say("failed" if self.player.fault else "playing" if self.player.playing else "paused")
        if self._last_slow - self._last_sliders > _SLIDERS or not self.player.playing:
            self._last_sliders = self._last_slow
            for exhibit in self.exhibits if self.player.scene is not None else []:
                exhibit.take_from(self.env)
            self.joints.refresh()

    def _paced(self, query: str) -> None:
        """A browser tells how fast it draws: what it would not draw need not be sent."""
        self.quality.told(query, moving=self.player.playing)
        self.player.frame = 1.0 / self.quality.rate

    def _draw_again(self) -> None:
        """More richly than before, or less."""
        threading.Thread(target=self._redraw, name="kinema-drawing", daemon=True).start()  # not in a browser's request

    def _redraw(self) -> None:
        with self.lock, self.viser.atomic():
            self.stage.draw_plainly(self.quality.fast)
            if self._crowd is not None:
                self._crowd.remove()
                self._crowd = Crowd(self.stage, self.n_envs, coarse=self.quality.fast)
                self.refresh()
            self.drawing.say()

    def _say(self, state: str) -> None:
        self.playing.say(state)
        if state == "failed":
            self.notify(self.player.fault)

    def _say_compiling(self) -> None:
        """Before something that keeps everybody waiting; it is sent now, not when that is over."""
        if self.player.scene is not None:
            self.playing.say("compiling")
            self.viser.flush()

    def notify(self, text: str) -> None:
        """Tell everybody who looks."""
        for client in self.viser.get_clients().values():
            client.add_notification("Kinema", text, auto_close_seconds=8.0)

    # -------------------------------------------------------------------------------------------- what users do

    def select(self, part: Part | None, color: tuple[int, int, int] = CHOSEN) -> None:
        """Highlight a part, there and in the tree."""
        with self.lock:
            self.selected = part
            self.stage.highlight(part, color)
            self.tree.show(part)
            self.plots.select(part)

    def _picked(self, part: Part) -> None:
        """A click selects the link; another one on it, the very shape."""
        link = Part(part.exhibit, "link", part.name)
        again = self.selected is not None and self.selected.name == part.name and self.selected.kind != "joint"
        self.select(part if again and self.selected != part else link)

    def _show_diagnostic(self, part: Part | None, severity: Severity) -> None:
        self.select(part, _COLORS[severity])
        if part is None:
            self.notify("This is about the file as a whole, not about one part of it.")

    def move(self, joint: str, values: Array) -> None:
        """Put one joint somewhere, in all exhibits that have it: numbers as sliders have them."""
        with self.lock, self.player.lock:
            closed = True
            for exhibit in (e for e in self.exhibits if joint in e.joints):
                closed &= exhibit.move({joint: values})
            if self.player.scene is not None:
                for exhibit in (e for e in self.exhibits if e.entity is not None):
                    exhibit.give_to(None if self._crowd is not None else self.env)
            self.refresh()
            if not closed:
                self.joints.refresh()

    def switch(self, layer: str, on: bool) -> None:
        """Show a layer, or hide it."""
        with self.lock:
            if layer == "Contacts" and on and self.player.ready():
                self._say_compiling()  # what tells of contacts, when it is asked for the first time
            self.layers.switch(layer, on and not (layer == "Visual" and self._crowd is not None))
            if not on and layer == "Contacts":
                self.layers.draw_contacts(np.zeros((0, 3)), np.zeros((0, 3)))
            if not on and layer == "Tendons":
                self.layers.draw_tendons()
            self.refresh()

    def choose_environment(self, number: int, side_by_side: bool) -> None:
        """Show one environment, or many side by side."""
        with self.lock:
            self.env = number
            if side_by_side and self.player.ready() and self._crowd is None:
                self._crowd = Crowd(self.stage, self.n_envs, coarse=self.quality.fast)
            elif not side_by_side and self._crowd is not None:
                self._crowd.remove()
                self._crowd = None
            for handle in self.stage.visuals:
                handle.visible = self._crowd is None and "Visual" in self.layers.on
            self.refresh()

    def frame(self, client: Any, view: str) -> None:
        """Let a visitor look at everything, from one of the stage's `VIEWS`."""
        (self.stage if self._crowd is None else self._crowd).frame(client, view)

    def screenshot(self, path: str | Path, size: tuple[int, int] = SIZE) -> None:
        """Write what the first visitor sees as a PNG; somebody has to look at the page.

        Args:
            path: the file.
            size: rows and columns.
        """
        clients = list(self.viser.get_clients().values())
        if not clients:
            raise KinemaError(f"nobody looks at {self.address}: open it in a browser first")
        Path(path).write_bytes(png(clients[0].get_render(*size, transport_format="png", timeout=60.0)))

    # --------------------------------------------------------------------------------------------------- closing

    def wait(self) -> None:
        """Stay until the user interrupts."""
        try:
            while True:
                time.sleep(3600.0)
        except KeyboardInterrupt:
            self.close()

    def close(self) -> None:
        """End the page and everything behind it."""
        for close in self.closers:
            close()
        self.closers.clear()
        self.player.close()
        self.page.stop()
