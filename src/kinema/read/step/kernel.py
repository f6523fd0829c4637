"""Runs the CAD kernel on a STEP file in a process of its own.

A STEP file whose entities refer to each other wrongly makes the kernel crash or run out of memory; here that is one
sentence. It is also why nothing but JSON and arrays comes back from there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from kinema.foundation import Diagnostics, Origin, ReadError
from kinema.read.cad.elements import Snapshot
from kinema.read.cad.solids import SolidOptions

from .handover import LOG, read_parts

TIMEOUT = 600.0
"""Seconds after which a file is given up."""
_MAX_LOG = 65536
_SYNTAX = re.compile(r"Line (\d+): (?:Incorrect syntax: )?(.*?)\s*\*{4}")
_COMPLAINT = re.compile(r"\*{4} ERR (.*?)\s*\*{4}")
# isolated, so that no file in the user's folder can pose as a module
_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from kinema.read.step.worker import main; main()"


def load_parts(file: Path, options: SolidOptions, diagnostics: Diagnostics) -> Snapshot:
    """The parts in a STEP file; a `ReadError` where there are none."""
    with tempfile.TemporaryDirectory(prefix="kinema-step-") as name:
        folder = Path(name)
        status = _run(file, folder, options)
        said = (folder / LOG).read_bytes()[:_MAX_LOG].decode("utf-8", "replace")
        if status != 0:
            raise ReadError(_reason(file, status, said))
        complaint = _COMPLAINT.search(said)
        if complaint is not None:
            message = f"the CAD kernel says: {complaint[1]:.200}; parts may be missing"
            diagnostics.warning("step.kernel-says", message, origin=Origin(str(file)))
        return read_parts(folder, file, diagnostics)


def _run(file: Path, folder: Path, options: SolidOptions) -> int:
    """Start the worker and wait for it; its exit status."""
    path = [entry for entry in sys.path if entry]
    arguments = [json.dumps(path), str(file.resolve()), str(folder), json.dumps(asdict(options))]
    with (folder / LOG).open("wb") as log:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", _PROGRAM, *arguments],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            raise ReadError(f"{file}: the CAD kernel did not finish with this file in {TIMEOUT:.0f} s") from None
        except OSError as error:
            raise ReadError(f"{file}: the CAD kernel could not be started: {error.strerror}") from None
    return done.returncode


def _reason(file: Path, status: int, said: str) -> str:
    """Why there are no parts, in one sentence."""
    syntax = _SYNTAX.search(said)
    if syntax is not None:
        return f"{file}:{syntax[1]}: this is not valid STEP: {syntax[2]}"
    if status < 0:
        return f"{file}: the CAD kernel crashed on this file (signal {-status}); its entities are probably damaged"
    lines = [line for line in said.splitlines() if line.strip()]
    return f"{file}: the CAD kernel could not read this file: {lines[-1] if lines else 'it gave no reason':.300}"
