"""Build a wheel and a source distribution, install the wheel into an empty environment, and try it there.

    python tools/try_wheel.py [--extra viewer] [--folder dist]

Nothing of the repository is in sight of what is tried: it runs in a folder of its own, with the robots of the wheel.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extra", action="append", default=[], help="also install an extra; several times for several")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where the wheel goes")
    options = parser.parse_args()
    wheel = build(options.folder)
    with tempfile.TemporaryDirectory() as folder:
        python = install(wheel, options.extra, Path(folder))
        attempt(python, Path(folder))
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
