"""Worker process that runs CoACD convex decomposition on one mesh; imports nothing from Kinema.

A separate process can be interrupted, and a crash of the library becomes an error message in the parent.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Worker process of convex decomposition: decompose `mesh.npz` by CoACD and write `parts.npz`.

    Both are in the folder given as first argument; the second argument is a JSON object of `run_coacd` options. The
    output has the vertices of all parts, `points` (n, 3), and the start of each part, `start` (n_parts + 1,).
    """
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
