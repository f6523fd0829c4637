"""The command `kinema`. Nothing heavy is imported before a command needs it, so that `--help` is instant."""

from __future__ import annotations

import errno
import os
import sys

from . import (
    cache_command as cache_command,
    cluster_command as cluster_command,
    commands_bench as commands_bench,
    commands_convert as commands_convert,
    commands_render as commands_render,
    view_command as view_command,
)
from .commands import app
from .streams import mend_streams

_UNWRITTEN = 2


def main() -> None:
    """Run the command line; the exit status is 0 for fine, 1 for a file with errors, 2 for one that cannot be read."""
    mend_streams()
    try:
        app(prog_name="kinema")
    except BrokenPipeError:  # `kinema info robot.urdf | head`
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        sys.stderr.write(f"kinema: error: what is printed cannot be written: {error.strerror}\n")
        os._exit(_UNWRITTEN)  # Python would try to write it once more
