"""`kinema publish`: writes a static page that simulates a robot in the browser, and prints its files and messages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinema.core import KinemaError

from ..publish import PublishedSite, load_scene_file, publish
from .input_output import (
    exit_status,
    open_input,
    output_console,
    print_diagnostics,
    print_json,
    read_file,
    report_failure,
)
from .options import ReadSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishOptions:
    """Options of `kinema publish`."""

    robot: Path | None
    scene: Path | None
    """Python file of a scene."""
    out: Path
    title: str | None
    task: str | None
    policy: Path | None
    json: bool


def publish_robot(options: PublishOptions, read_settings: ReadSettings) -> int:
    """Write the site; returns the exit status."""
    try:
        source: Any = None
        if options.robot is not None:
            with open_input(options.robot, read_settings) as (name, settings):
                source = read_file(name, settings)
            if options.scene is not None:
                source = load_scene_file(options.scene, source)
        site = publish(
            source, options.out, title=options.title, policy=options.policy, task=options.task, errors="keep"
        )
    except KinemaError as error:
        return report_failure(error, options.json)
    if options.json:
        print_json(_summary(site))
    else:
        _print_site(site)
    return exit_status(site.diagnostics.items)


def _summary(site: PublishedSite) -> dict[str, Any]:
    """Summary as JSON values."""
    return {
        "page": str(site.page),
        "files": {kind: str(path) for kind, path in site.files.items()},
        "bytes": {kind: path.stat().st_size for kind, path in site.files.items()},
        "diagnostics": [item.to_json() for item in site.diagnostics.items],
    }


def _print_site(site: PublishedSite) -> None:
    console = output_console()
    print_diagnostics(console, site.diagnostics.items)
    for path in site.files.values():
        console.print(f"  {path}, {path.stat().st_size:,} bytes", soft_wrap=True)
    console.print(f"{site.page}: open it in a browser", soft_wrap=True)
