"""Paths of the example robots that come with the package."""

from __future__ import annotations

from pathlib import Path

from kinema.core import KinemaError

ROBOT_FOLDERS = (Path(__file__).parents[1] / "robots", Path(__file__).parents[4] / "examples" / "robots")
"""Folders of example robots: in an installed package, and in a source checkout."""


def robot_file(name: str) -> Path:
    """Path of an example robot, such as `arm/arm.urdf`."""
    for home in ROBOT_FOLDERS:
        if (home / name).exists():
            return home / name
    raise KinemaError(f"the robot {name} is neither in {' nor in '.join(str(home) for home in ROBOT_FOLDERS)}")
