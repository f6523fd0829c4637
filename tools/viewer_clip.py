"""The clip of the viewer in README.md: a quadruped walks by the bundled policy and is pulled, then 16 are shown.

    python tools/viewer_clip.py [--out docs/pictures/viewer.webp] [--sheet sheet.png] [--frames 90] [--quality 60]

A headless Chromium draws the page with its CPU (`apt install chromium`; `pip install playwright`). The scene is stepped
between two frames, and each frame is captured after the page has drawn its state, so the clip is smooth on slow
machines too. `--sheet` also writes some of the frames side by side.
"""

from __future__ import annotations

import argparse
import io
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from frames import CHROMIUM, FLAGS
from PIL import Image

from kinema.apps import learn
from kinema.apps.viewer import Viewer, show
from kinema.apps.viewer.render_quality import FULL
from kinema.apps.viewer.scene_view import frame_beside_panel
from kinema.core import Array
from kinema.description import Plane, Shape, VisualMaterial, World
from kinema.geometry import builtin_texture_reference
from kinema.read import read
from kinema.scene import Entity, Scene
from kinema.tokens import mjcf

ROOT = Path(__file__).resolve().parents[1]
PAGE, CLIP = (1040, 650), (832, 520)
"""Width and height of the page and of the clip [pixels]."""
N_ENVS, STEPS_PER_FRAME = 16, 3
PULL, CROWD = (0.22, 0.5), 0.64
"""When the mouse pulls, and from when all environments are shown, as fractions of the clip."""
SPEED = (0.45, 0.0, 0.0)
"""Commanded velocity of the quadruped in front [m/s, m/s, rad/s]."""
CURSOR = """
window.addEventListener("DOMContentLoaded", () => {
  const arrow = document.createElement("div");
  arrow.innerHTML = '<svg width="26" height="26" viewBox="0 0 24 24"><path d="M5 2l14 13h-8l-4 7z" fill="#111" ' +
    'stroke="#fff" stroke-width="1.6"/></svg>';
  arrow.style = "position:fixed;left:-50px;top:0;pointer-events:none;z-index:99999";
  document.body.append(arrow);
  window.addEventListener("pointermove", (event) => {
    arrow.style.left = event.clientX - 5 + "px";
    arrow.style.top = event.clientY - 2 + "px";
  }, { capture: true });
});
"""
DRAWN = """(clock) => new Promise((done) => {
  const look = () => {
    const arrived = document.body.innerText.includes(clock) && !window.__viserMutable?.messageQueue.length;
    if (arrived) requestAnimationFrame(() => setTimeout(done, 0)); else setTimeout(look, 10);
  };
  look();
})"""


def make_env() -> learn.TaskEnv:
    """The task `walk` without noise and pushes, on a floor with a texture, with external forces."""
    colors = (0.80, 0.83, 0.87), (0.70, 0.74, 0.79)
    texture = builtin_texture_reference("checker", (256, 256), *colors)
    paint = VisualMaterial(name="floor", texture=texture, attributes={mjcf.attribute_key(mjcf.TEXREPEAT): (2.0, 2.0)})

    def build(scene: Scene) -> dict[str, Entity]:
        robot = read(learn.robot_file("quadruped/quadruped.xml"))
        robot.collision.self_collide = False
        ground = World(name="floor", shapes=[Shape(name="floor", geometry=Plane(), material=paint)])
        return {"robot": scene.add(robot), "ground": scene.add(ground)}

    task = learn.TASKS["walk"]()
    events = {name: event for name, event in task.events.items() if name != "push"}
    seen = {name: replace(group, enable_corruption=False) for name, group in task.observations.items()}
    task = replace(task, build=build, build_options={"external_forces": True}, events=events, observations=seen)
    return learn.make_env(task, N_ENVS, "cpu", arrays="numpy")


class Clip:
    """A viewer, the browser that shows it, and the frames so far."""

    def __init__(self, page: Any, viewer: Viewer, env: learn.TaskEnv) -> None:
        self.page, self.viewer, self.env = page, viewer, env
        self.policy = learn.Policy.load(learn.robot_file("quadruped/walk.npz"))
        self.observations = env.reset(seed=4)["policy"]
        self.frames: list[Image.Image] = []
        self.focus, self.azimuth = self.base() - np.array([0.0, 0.0, 0.10]), -0.75
        self.pulled_from = np.zeros(2)

    def base(self) -> Array:
        """Position of the quadruped in front [m]."""
        return np.array(self.env.robot.get_links_pos(envs_idx=[0])[0, 0], dtype=float)

    def step(self) -> None:
        """Simulate the time of a frame, with the spring of the mouse."""
        for _ in range(STEPS_PER_FRAME):
            if (spring := self.viewer.player.drag_spring) is not None:
                spring.apply()
            self.env.commands["velocity"][0] = SPEED
            self.observations = self.env.step(self.policy(self.observations)).obs["policy"]

    def look(self, radius: float, elevation: float) -> None:
        """Point the camera at the focus, beside the panel."""
        camera = self.camera
        distance, shift = frame_beside_panel(radius, *PAGE)
        right = np.array([-math.sin(self.azimuth), math.cos(self.azimuth), 0.0])
        outwards = np.array([right[1] * math.cos(elevation), -right[0] * math.cos(elevation), math.sin(elevation)])
        camera.position = self.focus + shift * right + distance * outwards
        camera.look_at = self.focus + shift * right

    @property
    def camera(self) -> Any:
        """The camera of the browser."""
        return next(iter(self.viewer.viser.get_clients().values())).camera

    def pixel(self, point: Array) -> Array:
        """Where a point [m] is seen on the page [pixels]."""
        camera = self.camera
        forward = camera.look_at - camera.position
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        right /= np.linalg.norm(right)
        x, y, z = np.stack([right, np.cross(forward, right), forward]) @ (point - camera.position)
        return np.array(PAGE) / 2 + np.array([x, y]) / z * PAGE[1] / 2 / math.tan(camera.fov / 2)

    def capture(self) -> None:
        """Send the state, wait until it is drawn, and append a frame."""
        self.viewer.update()
        self.viewer.viser.flush()
        self.page.evaluate(DRAWN, f"{self.env.scene.time:.2f} s")
        image = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        self.frames.append(image.resize(CLIP, Image.Resampling.LANCZOS))

    def take(self, count: int) -> None:
        """All frames: walking, pulled by the mouse, then all quadrupeds side by side."""
        mouse = self.page.mouse
        crowd = round(CROWD * count)
        first, last = (round(part * count) for part in PULL)
        box = self.page.get_by_text("side by side").bounding_box()
        checkbox = np.array([box["x"] - 14, box["y"] + box["height"] / 2])
        began = time.perf_counter()
        cursor = np.array([0.30 * PAGE[0], 0.84 * PAGE[1]])
        for number in range(count):
            if number < crowd:
                self.azimuth += 0.5 / count
                self.focus = 0.85 * self.focus + 0.15 * (self.base() - np.array([0.0, 0.0, 0.10]))
                self.look(0.38, 0.32)
            self.step()
            if number < first:
                goal = self.pixel(self.base() + np.array([0.0, 0.0, 0.02]))
                cursor = cursor + (goal - cursor) / (first - number)
                mouse.move(*cursor)
            elif number < last:
                cursor = self.pull(cursor, number - first, last - first)
            elif number < crowd:
                if number == last:
                    mouse.up()
                    self.page.keyboard.up("Control")
                cursor = cursor + (checkbox - cursor) * min(1.0, 2.2 / (crowd - number))
                mouse.move(*cursor)
            elif number == crowd:
                mouse.move(*checkbox)
                self.page.get_by_text("side by side").click()
            self.capture()
            print(f"\r{number + 1}/{count}, {time.perf_counter() - began:.0f} s", end="", flush=True)

    def pull(self, cursor: Array, number: int, count: int) -> Array:
        """Drag the trunk with the mouse, up and to the side; returns the place of the mouse."""
        if number == 0:
            self.page.keyboard.down("Control")
            self.page.mouse.down()
            self.pulled_from = cursor
        part = number / count
        goal = self.pulled_from + np.array([-150.0, -120.0]) * math.sin(math.pi * min(1.0, 0.75 * part + 0.02))
        self.page.mouse.move(*goal, steps=2)
        return goal


def prepare(page: Any, viewer: Viewer, *, full: bool) -> None:
    """Open the page, choose what is plotted, and wait until everything is drawn."""
    page.set_default_timeout(180_000)
    page.add_init_script(CURSOR)
    page.goto(viewer.address)
    page.get_by_text("side by side").wait_for()
    while not viewer.viser.get_clients():
        page.wait_for_timeout(100)
    page.get_by_role("tab", name="Plots").click()
    page.get_by_role("combobox", name="Plot").click()
    page.get_by_role("option", name="velocities").click()
    viewer.set_layer("Contacts", True)
    page.evaluate("window.__viserTestpoints.devSettings.set({ fixedDpr: 1.01 })")  # a choice that the page leaves alone
    if full:
        viewer.quality.choose(FULL)
    page.wait_for_timeout(8000)
    for button in page.locator(".mantine-Notification-closeButton").all():
        button.click()
    page.wait_for_timeout(1500)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "viewer.webp")
    parser.add_argument("--sheet", type=Path)
    parser.add_argument("--frames", type=int, default=90)
    parser.add_argument("--quality", type=int, default=60)
    parser.add_argument("--full", action="store_true", help="with shadows and reflections: many seconds for each frame")
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

    began = time.perf_counter()
    env = make_env()
    viewer = show(env.scene, port=0)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        page = browser.new_page(viewport={"width": PAGE[0], "height": PAGE[1]})
        clip = Clip(page, viewer, env)
        prepare(page, viewer, full=args.full)
        clip.take(args.frames)
        browser.close()
    viewer.close()
    if args.sheet:
        chosen = [clip.frames[round(i)] for i in np.linspace(0, len(clip.frames) - 1, 20)]
        sheet = Image.new("RGB", (4 * 440, 5 * 275))
        for i, frame in enumerate(chosen):
            sheet.paste(frame.resize((440, 275)), (i % 4 * 440, i // 4 * 275))
        sheet.save(args.sheet)
    duration = round(1000 * STEPS_PER_FRAME * env.step_dt)
    first, *others = clip.frames
    first.save(args.out, save_all=True, append_images=others, duration=duration, loop=0, quality=args.quality, method=4)
    print(f"\n{args.out}: {args.out.stat().st_size // 1000} kB, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
