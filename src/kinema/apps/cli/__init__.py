"""Entry point of the command `kinema`, with repair of closed standard streams.

Each command imports its implementation when it runs, so that `--help` is instant.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys

from . import command_groups as command_groups, commands as commands
from .commands import app

# ----------------------------------------------------------------------------------------------------- standard streams


def repair_standard_streams() -> None:
    """Reopen closed standard streams, and make output robust against characters that the encoding lacks.

    Without this, a message to a closed stream ends the command silently, and a file opened later would get the
    descriptor of a standard stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        mode = os.O_RDONLY if number == 0 else os.O_WRONLY
        if not _is_open(number, mode):
            nowhere = os.open(os.devnull, mode)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _is_open(descriptor: int, mode: int) -> bool:
    """Whether a file descriptor is open for reading or writing."""
    try:
        os.fstat(descriptor)
        control = importlib.import_module("fcntl")  # not everywhere
        found = control.fcntl(descriptor, control.F_GETFL) & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
    except OSError:
        return False
    except ImportError:
        return True
    return found in (mode, os.O_RDWR)


# ---------------------------------------------------------------------------------------------------------- entry point

_EXIT_OUTPUT_FAILED = 2


def main() -> None:
    """Run the command line; exit status 0 for success, 1 for a file with errors, 2 for a file that cannot be read."""
    repair_standard_streams()
    try:
        app(prog_name="kinema")
    except BrokenPipeError:  # `kinema info robot.urdf | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        sys.stderr.write(f"kinema: error: what is printed cannot be written: {error.strerror}\n")
        os._exit(_EXIT_OUTPUT_FAILED)  # Python would try to write it once more
