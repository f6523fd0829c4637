"""Standard streams that can be written to: whoever starts a command may have closed them, or have few letters."""

from __future__ import annotations

import importlib
import io
import os
import sys


def mend_streams() -> None:
    """Give a command the streams that it was started without, and let none fail on a letter that it has not got.

    Without this the first message to a closed stream ends a command without a word, and a file that is opened later, or
    the script that started the command, has the number of a standard stream.
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


def _is_open(number: int, mode: int) -> bool:
    """Whether something is open under a number, and can be read from or written to."""
    try:
        os.fstat(number)
        control = importlib.import_module("fcntl")  # not everywhere
        found = control.fcntl(number, control.F_GETFL) & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
    except OSError:
        return False
    except ImportError:
        return True
    return found in (mode, os.O_RDWR)
