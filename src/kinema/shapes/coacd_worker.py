"""A process that decomposes one mesh with CoACD. It imports nothing of Kinema; its standard output is CoACD's log.

It runs beside the program that asks, so that it can be interrupted, and so that a mesh on which the library crashes is
one sentence there.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Read `mesh.npz` of the folder that the command line names, and write `parts.npz` beside it."""
    folder, options = sys.argv[1], json.loads(sys.argv[2])
    import coacd  # pyright: ignore[reportMissingImports]
    import numpy as np

    coacd.set_log_level("info")
    with np.load(f"{folder}/mesh.npz", allow_pickle=False) as mesh:
        parts = coacd.run_coacd(coacd.Mesh(mesh["vertices"], mesh["faces"]), **options)
    sizes = [len(vertices) for vertices, _ in parts]
    points = np.concatenate([vertices for vertices, _ in parts]) if parts else np.zeros((0, 3))
    np.savez(f"{folder}/parts.npz", points=points, start=np.cumsum([0, *sizes]))


if __name__ == "__main__":
    main()
