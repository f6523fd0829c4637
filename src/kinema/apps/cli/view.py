"""`kinema view`: robots in the browser."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from kinema.foundation import KinemaError

from ..viewer import view
from .diagnostics_table import output_console
from .reading import FINE, ReadSettings, print_json, read_file, report_error


def run(
    files: Sequence[Path],
    how: ReadSettings,
    address: dict[str, Any],
    *,
    envs: int,
    watch: bool,
    plain: bool,
    browser: bool,
    json: bool = False,
) -> int:
    """Show files until the user has seen enough; the exit status."""
    try:
        viewer = view(
            *files, n_envs=envs, watch=watch, plain=plain, reader=lambda file: read_file(file, how), **address
        )
    except KinemaError as error:
        return report_error(error, as_json=json)
    if json:
        print_json({"address": viewer.address, "files": [str(file) for file in files]})
        sys.stdout.flush()  # for whoever waits for the address
    else:
        console = output_console()
        console.print(
            Text.assemble("Open ", (viewer.address, "bold"), " in a browser; Ctrl-C ends it."), soft_wrap=True
        )
    if browser:
        webbrowser.open(viewer.address)
    viewer.wait()
    return FINE
