"""Compile the arm for the controller example: inverse dynamics for the controller, a simulation at 1 kHz to control.

    python examples/controller/compile_arm.py [--out build/controller] [--target native]

All joints are driven by forces. The folder becomes a CMake package; `README.md` beside this file says how to go on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import kinema as km

ARM = Path(__file__).parents[1] / "robots" / "arm" / "arm.urdf"
PERIOD = 0.001
"""Period of the controller, and time step of the simulation [s]."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="build/controller")
    parser.add_argument("--target", default="native")
    options = parser.parse_args()
    scene = km.Scene(dt=PERIOD, precision="double", quiet=True)
    arm = scene.add(ARM, fixed=True)
    scene.build()
    arm.control_dofs_force([0.0] * arm.n_dofs)
    library = km.compile_library(
        scene, options.out, name="arm", functions=["fk", "rnea", "step"], target=options.target
    )
    print(f"{library.files['static']}: {library.code_bytes:,} bytes, stack of rnea {library.stack_bytes['rnea']} bytes")


if __name__ == "__main__":
    main()
