"""Build a wheel and a source distribution, install the wheel into an empty environment, and try it there.

    python tools/try_wheel.py [--extra viewer] [--folder dist]

Nothing of the repository is in sight of what is tried: it runs in a folder of its own, with the robots of the wheel.
Of an extra, what it is for is tried as well.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROBOTS = "from kinema.apps import learn; print(learn.robot_file('arm/arm.urdf').parents[1])"


CAD = """
from build123d import Box, Compound, export_step
export_step(Compound(label="block", children=[Box(10, 20, 30)]), "block.step")
"""
LEARNT = """
from stable_baselines3 import PPO
from kinema.apps import learn
PPO("MlpPolicy", learn.Sb3Task(learn.run("cartpole", 16)), n_steps=32, batch_size=128, device="cpu").learn(512)
"""
SHOWN = """
import sys, urllib.request
from kinema.apps.viewer import view
viewer = view(sys.argv[1], port=0)
print(urllib.request.urlopen(viewer.address, timeout=60).status)
viewer.close()
"""
EXTRAS = {
    "viewer": [("python", "-c", SHOWN, "ARM")],
    "render": [("kinema", "render", "ARM", "--video", "arm.mp4", "--seconds", "0.2", "--size", "160x120")],
    "images": [("python", "-c", "import PIL")],
    "xacro": [("python", "-c", "import xacro")],
    "cad": [("python", "-c", CAD), ("kinema", "info", "block.step"), ("kinema", "convert", "block.step", "block.urdf")],
    "rl": [("python", "-c", LEARNT)],
    "record": [("python", "-c", "import pyarrow, mcap")],
    "cluster": [("kinema", "check", "ARM", "--cluster", "local")],
}
"""What each extra is for, as commands; `ARM` stands for the file of a robot."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", action="append", default=[], help="also install an extra; several times for several")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where the wheel goes")
    options = parser.parse_args()
    wheel = build(options.folder)
    with tempfile.TemporaryDirectory() as folder:
        python = install(wheel, options.extra, Path(folder))
        attempt(python, Path(folder))
        for extra in options.extra:
            attempt_extra(extra, python, Path(folder))
    print(f"✓ {wheel} works in an empty environment")


def build(folder: Path) -> Path:
    """The wheel, built by way of the source distribution, so that this one is known to be whole."""
    for old in folder.glob("kinema-*"):
        old.unlink()
    _run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], ROOT)
    (wheel,) = folder.glob("kinema-*.whl")
    return wheel


def install(wheel: Path, extras: list[str], folder: Path) -> Path:
    """A Python that has the wheel and what it asks for, and nothing else."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    _run([str(python), "-m", "pip", "install", "--quiet", wanted], folder)
    return python


def attempt(python: Path, folder: Path) -> None:
    """Its version, and the robots in it: looked at, converted, simulated."""
    command = str(python.with_name("kinema"))
    robots = Path(_run([str(python), "-c", ROBOTS], folder).strip())
    assert robots.is_relative_to(folder.resolve()) or robots.is_relative_to(folder), robots
    for arguments in (
        ["--version"],
        ["info", str(robots / "arm" / "arm.urdf")],
        ["check", str(robots / "gripper" / "gripper.sdf")],
        ["convert", str(robots / "arm" / "arm.urdf"), "arm.usda"],
        ["simulate", str(robots / "cartpole" / "cartpole.xml"), "--envs", "4", "--steps", "10"],
    ):
        _run([command, *arguments], folder)


def attempt_extra(extra: str, python: Path, folder: Path) -> None:
    """What an extra is for."""
    arm = str(Path(_run([str(python), "-c", ROBOTS], folder).strip()) / "arm" / "arm.urdf")
    for program, *arguments in EXTRAS.get(extra, []):
        _run([str(python.with_name(program)), *(arm if a == "ARM" else a for a in arguments)], folder)


def _run(command: list[str], folder: Path) -> str:
    """What a command prints; it may not fail, nor see this repository's Python path."""
    print("$", " ".join(command), flush=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\ntry_wheel: this failed with status {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main()
