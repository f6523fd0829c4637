"""Entry point of the subprocess that opens a STEP file with the CAD kernel."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from kinema.core import Diagnostics

from ..cad.build123d_assembly import AssemblyWalker, SolidOptions
from .cad_kernel import write_parts

_MAX_MEMORY = 8 * 2**30
"""Memory limit of the process [bytes]: a damaged file can require any number of triangles."""


def main() -> None:
    """Read the STEP file and write its parts to the folder given on the command line."""
    file, folder, options = sys.argv[2:5]
    _limit_memory()
    import build123d  # pyright: ignore[reportMissingImports]

    assembly = build123d.import_step(file)
    if assembly.wrapped is None:
        sys.exit("it holds no parts")
    diagnostics = Diagnostics()
    walker = AssemblyWalker(SolidOptions(**json.loads(options)), diagnostics)
    walker.add_assembly(assembly)
    write_parts(Path(folder), assembly.label, [part.occurrence for part in walker.parts], diagnostics)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows, or a stricter limit is there already
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY, _MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
