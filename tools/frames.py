"""How fast the viewer moves in a browser: a go2 that plays, then 64 of them side by side.

    python tools/frames.py [ROBOT] [--envs 1 64] [--size 640x400] [--full] [--pictures FOLDER]

A real server and a headless Chromium that draws with its CPU (`apt install chromium`; `pip install playwright`). In the
page, calls of WebGL are watched: a frame counts as *drawn* when anything was drawn in it, and as *moved* when what
was drawn stood elsewhere than in the frame before it, while nobody touches the camera. Warming up is waited for until
three windows of a few seconds agree. The page is as a user gets it, which without a GPU is the fast one; `--full`
chooses the other. Fails below 30 frames/s that moved for one, and below 10 for many. On a busy machine rates measure
the others; the CPU's time for each frame, of the browser's processes and the server's, hardly depends on them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kinema.apps.viewer import Viewer, view
from kinema.apps.viewer.render_quality import FULL

ROOT = Path(__file__).resolve().parents[1]
GO2 = ROOT.parent / "shared" / "assets" / "mjcf" / "unitree_go2" / "go2_scene.xml"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
MARKS = {1: 30.0, 64: 10.0}
"""Environments, and the frames/s that are wanted of them."""
WINDOW, LONGEST = 4.0, 150.0
"""Seconds for which frames are counted at once, and after which warming up is given up."""
WATCH = """
(() => {
  const seen = window.__frames = {drawn: 0, moved: 0, began: performance.now()};
  let draws = 0, sum = 0, last = 0;
  const add = (values) => { for (let i = 0; i < values.length; i++) sum = (sum * 31 + values[i] * 1e4) % 1e9; };
  const wrap = (name, before) => {
    const own = WebGL2RenderingContext.prototype[name];
    WebGL2RenderingContext.prototype[name] = function (...args) { before(args); return own.apply(this, args); };
  };
  for (const name of ['drawElements', 'drawArrays', 'drawElementsInstanced', 'drawArraysInstanced'])
    wrap(name, () => { draws++; });
  wrap('uniformMatrix4fv', (args) => add(args[2]));
  wrap('bufferSubData', (args) => { if (args[2] instanceof Float32Array) add(args[2].subarray(0, 64)); });
  wrap('texSubImage2D', (args) => { const a = args[8]; if (a instanceof Float32Array) add(a.subarray(0, 64)); });
  const own = window.requestAnimationFrame.bind(window);
  const tick = () => {
    if (draws) { seen.drawn++; if (sum !== last) seen.moved++; last = sum; }
    draws = 0; sum = 0;
    own(tick);
  };
  own(tick);
})();
"""
TAKE = """() => {
  const seen = window.__frames, seconds = (performance.now() - seen.began) / 1000;
  const result = [seen.drawn / seconds, seen.moved / seconds];
  seen.drawn = seen.moved = 0; seen.began = performance.now();
  return result;
}"""


class Processes:
    """What the CPU did for the processes that draw, for the rest of the browser, and for the server."""

    def __init__(self) -> None:
        self._before = self._seconds()

    def take(self) -> dict[str, float]:
        """Seconds since the last time."""
        now = self._seconds()
        spent = {kind: value - self._before.get(kind, 0.0) for kind, value in now.items()}
        self._before = now
        return spent

    def _seconds(self) -> dict[str, float]:
        found = {"drawing": 0.0, "page": 0.0, "server": time.process_time()}
        mine, parents = {os.getpid()}, _parents()
        for pid in sorted(parents):
            if parents[pid] in mine:
                mine.add(pid)
                kind = "drawing" if "--type=gpu-process" in _read(pid, "cmdline") else "page"
                fields = _read(pid, "stat").rpartition(")")[2].split()
                found[kind] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0
        return found


def _parents() -> dict[int, int]:
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]
    fields = {pid: _read(pid, "stat").rpartition(")")[2].split() for pid in pids}
    return {pid: int(values[1]) for pid, values in fields.items() if values}


def _read(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:  # it has ended
        return ""


class Counted:
    """Frames that the server makes, and what of its time they take."""

    def __init__(self, viewer: Viewer) -> None:
        self.frames, self.seconds, self._refresh = 0, 0.0, viewer.player.on_frame
        self.began = time.perf_counter()
        viewer.player.on_frame = self._frame

    def _frame(self) -> None:
        began = time.thread_time()
        self._refresh()
        self.frames += 1
        self.seconds += time.thread_time() - began

    def take(self) -> tuple[float, float]:
        """Frames/s and the CPU's seconds for each since the last time."""
        result = self.frames / (time.perf_counter() - self.began), self.seconds / max(self.frames, 1)
        self.frames, self.seconds, self.began = 0, 0.0, time.perf_counter()
        return result


def warm(
    page: Any, counted: Counted, again: Callable[[], None]
) -> tuple[list[float], list[tuple[float, float]], dict[str, float]]:
    """Frames/s drawn and moved once they no longer change, what the server did meanwhile, the CPU's time of a frame."""
    processes = Processes()
    end = time.monotonic() + LONGEST
    drawn: list[list[float]] = []
    served: list[tuple[float, float]] = []
    while True:
        again()  # a robot that has walked out of the picture does not move in it
        page.evaluate(TAKE)
        counted.take()
        processes.take()
        page.wait_for_timeout(1000 * WINDOW)
        drawn.append(page.evaluate(TAKE))
        served.append(counted.take())
        spent = {kind: value / max(WINDOW * drawn[-1][0], 1.0) for kind, value in processes.take().items()}
        moved = [m for _, m in drawn[-3:]]
        agree = len(moved) == 3 and min(moved) > 0.85 * max(moved) and moved[2] < 1.08 * moved[0]
        if agree or time.monotonic() > end:
            return [statistics.median(x) for x in zip(*drawn[-3:], strict=True)], served[-3:], spent


def measure(browser: Any, args: argparse.Namespace, n_envs: int) -> tuple[float, str]:
    """Moved frames/s, and a line that tells of all."""
    viewer = view(args.robot, port=0, n_envs=n_envs, watch=False)
    if args.full:
        viewer.quality.choose(FULL)
    width, height = (int(x) for x in args.size.split("x"))
    page = browser.new_page(viewport={"width": width, "height": height})
    try:
        page.set_default_timeout(180_000)
        page.add_init_script(WATCH)
        page.goto(viewer.address)
        page.get_by_text("Simulation").wait_for()
        if n_envs > 1:
            page.get_by_text("side by side").click()
        page.get_by_role("button", name="Play", exact=True).click()
        while viewer.player.scene is None or viewer.player.scene.time < 0.2:
            page.wait_for_timeout(200)
        viewer.player.control_inputs.source = "random"  # so that something moves for as long as it takes
        then = viewer.player.scene.time + 1.0  # the first such command compiles
        while viewer.player.scene.time < then:
            page.wait_for_timeout(200)
        (drawn, moved), served, spent = warm(page, Counted(viewer), viewer.player.reset)
        if args.pictures:
            args.pictures.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=args.pictures / f"{n_envs}.png")
        rate, cost = (statistics.median(x) for x in zip(*served, strict=True))
        text = f"{n_envs:3} x {Path(args.robot).stem}: {moved:5.1f} frames/s moved, {drawn:5.1f} drawn, "
        text += f"{rate:5.1f} sent at {1000 * cost:.2f} ms of the server's CPU each; the CPU's time of a frame: "
        return moved, text + ", ".join(f"{kind} {1000 * value:.1f} ms" for kind, value in spent.items())
    finally:
        page.close()
        viewer.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robot", nargs="?", default=GO2, type=Path)
    parser.add_argument("--envs", type=int, nargs="*", default=list(MARKS))
    parser.add_argument("--size", default="640x400", help="of the page [pixels]")
    parser.add_argument("--full", action="store_true", help="with shadows, mirrored light and a floor")
    parser.add_argument("--pictures", type=Path, help="a folder for what the page showed")
    args = parser.parse_args()
    from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

    fine = True
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        for n_envs in args.envs:
            moved, text = measure(browser, args, n_envs)
            fine &= moved >= MARKS.get(n_envs, 0.0)
            print(text, flush=True)
        browser.close()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
