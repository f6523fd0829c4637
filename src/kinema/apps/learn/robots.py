"""The robots that tasks are about: those of the examples, which come along with the package."""

from __future__ import annotations

from pathlib import Path

from kinema.foundation import KinemaError

HOMES = (Path(__file__).parents[1] / "robots", Path(__file__).parents[4] / "examples" / "robots")
"""In an installed package, and in a checkout."""


def robot_file(name: str) -> Path:
    """The file of a bundled robot, such as `arm/arm.urdf`."""
    for home in HOMES:
        if (home / name).exists():
            return home / name
    raise KinemaError(f"the robot {name} is neither in {' nor in '.join(str(home) for home in HOMES)}")
