"""The process that opens a STEP file with the CAD kernel. Its standard output is a log."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from kinema.foundation import Diagnostics
from kinema.read.cad.solids import PartList, SolidOptions

from .handover import write_parts

_MEMORY = 8 * 2**30
"""Bytes that the process may use: a damaged file can ask for any number of triangles."""


def main() -> None:
    """Read the file and write the parts into the folder that the command line names."""
    file, folder, options = sys.argv[2:5]
    _limit_memory()
    import build123d  # pyright: ignore[reportMissingImports]

    assembly = build123d.import_step(file)
    if assembly.wrapped is None:
        sys.exit("it holds no parts")
    diagnostics = Diagnostics()
    found = PartList(SolidOptions(**json.loads(options)), diagnostics)
    found.add_all(assembly)
    write_parts(Path(folder), assembly.label, [part.occurrence for part in found.parts], diagnostics)


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):  # not on Windows, or a stricter limit is there already
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
