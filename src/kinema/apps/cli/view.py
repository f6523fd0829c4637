"""`kinema view`: opens the browser viewer for robot files."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from kinema.core import KinemaError

from ..viewer import view
from .input_output import EXIT_OK, output_console, print_json, read_file, report_error
from .options import ReadSettings


def view_files(
    files: Sequence[Path],
    read_settings: ReadSettings,
    address: dict[str, Any],
    *,
    envs: int,
    watch: bool,
    simple_shading: bool,
    open_browser: bool,
    json: bool = False,
) -> int:
    """Show files in the viewer until interrupted; returns the exit status."""
    try:
        viewer = view(
            *files,
            n_envs=envs,
            watch=watch,
            simple_shading=simple_shading,
            reader=lambda file: read_file(file, read_settings),
            **address,
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
    if open_browser:
        webbrowser.open(viewer.address)
    viewer.wait()
    return EXIT_OK
