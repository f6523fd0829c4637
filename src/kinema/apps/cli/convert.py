"""`kinema convert`: a robot from one format to another, and what was lost on the way."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.status import Status
from rich.text import Text

from kinema.description import Robot, World
from kinema.foundation import KinemaError, WriteError
from kinema.write import FORMATS, LossReport, format_of, write

from .choices import Layout, Meshes
from .diagnostics_table import output_console, print_diagnostics
from .loss_table import print_losses
from .reading import ReadSettings, named_input, print_json, read_file, report_error, status
from .standard_input import STANDARD, shown

ALL = "all"
"""What `--to` calls every format there is."""


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """How the output is written; see `kinema.write`."""

    layout: str = Layout.NESTED.value
    meshes: str = Meshes.EMBED.value
    layered: bool = False
    robot: str = ""
    """Which one of several, for URDF."""
    exact: bool = True
    version: str = ""
    base: str = "auto"
    frames: bool = False
    package: str = ""
    mesh_format: str = ""
    actuators: str = ""
    force: bool = False

    def write(self, described: Robot | World, target: Path, format: str, robot: str = "") -> LossReport:
        """Write a description so; `robot` overrules the settings' own."""
        how = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        how["robot"] = robot or (self.robot if format == "urdf" else "")
        how["version"] = self.version if format in ("urdf", "sdf") else ""
        return write(described, target, format=format, **how)


@dataclass(frozen=True, slots=True)
class Showing:
    """What the user is shown."""

    report: Path | None = None
    """The file for all losses."""
    json: bool = False


def formats_named(to: str) -> dict[str, tuple[str, str]]:
    """Every word of `--to`, which may be several with commas between, with the format and suffix it asks for."""
    words = list(FORMATS) if to.strip().lower() == ALL else to.split(",")
    return {word.strip().lower().removeprefix("."): format_named(word) for word in words}


def format_named(to: str) -> tuple[str, str]:
    """The format and the suffix that a word asks for: `usd`, `.usda`, `mjcf`, `xml`, ...; a `WriteError` otherwise."""
    word = to.strip().lower().removeprefix(".")
    if word in FORMATS:
        return word, FORMATS[word][0]
    for format, suffixes in FORMATS.items():
        if f".{word}" in suffixes:
            return format, f".{word}"
    words = dict.fromkeys(w for f, suffixes in FORMATS.items() for w in (f, *(s.removeprefix(".") for s in suffixes)))
    raise WriteError(f"--to {to}: this cannot be written; these can: {', '.join(words)}, or {ALL} of them")


def run(
    source: Path,
    target: Path,
    how: ReadSettings,
    *,
    settings: WriteSettings,
    to: str | None = None,
    showing: Showing | None = None,
) -> int:
    """Convert a file; the exit status."""
    showing = showing or Showing()
    try:
        file, chosen = _target(source, target, to)
        with named_input(source, how) as (name, reading), Status("reading", console=Console(stderr=True)) as progress:
            described = read_file(name, reading)
            progress.update("writing")
            if file.parent == target:
                target.mkdir(exist_ok=True)
            if target == STANDARD:
                losses = _to_standard_output(described, file, chosen, settings)
            else:
                losses = settings.write(described, file, chosen)
        if showing.report is not None:
            save(losses.to_json(), showing.report)
    except KinemaError as error:
        return report_error(error, showing.json)
    if showing.json:
        _print_json(source, target if target == STANDARD else file, described, losses)
    else:
        console = Console(stderr=True, highlight=False) if target == STANDARD else output_console()
        _print(console, str(file) if target != STANDARD else "standard output", described, losses)
    return status(described.diagnostics.items)


def _target(source: Path, target: Path, to: str | None) -> tuple[Path, str]:
    """The file to write and its format; in a folder it is called as the source is."""
    if target == STANDARD:
        if to is None:
            raise WriteError("-: say what to write to the standard output, as in --to urdf")
        format, suffix = format_named(to)
        return Path(f"robot{suffix}"), format
    # with a format, a name without an ending that is no file is that of a folder to be made
    is_new_folder = to is not None and not target.suffix and not target.exists()
    if not target.is_dir() and not is_new_folder:
        return target, format_of(target) if to is None else format_named(to)[0]
    if to is None:
        raise WriteError(f"{target}: this is a folder; say what to write into it, as in --to usda")
    format, suffix = format_named(to)
    stem = "robot" if source == STANDARD else source.name.removesuffix(source.suffix).removesuffix(".urdf")
    return target / f"{stem}{suffix}", format


def _to_standard_output(described: Robot | World, name: Path, format: str, settings: WriteSettings) -> LossReport:
    """One file to the standard output; meshes stay where they lie, as nothing can be put beside it."""
    if format != "usd" and settings.meshes == Meshes.EMBED.value:
        settings = dataclasses.replace(settings, meshes=Meshes.REFERENCE.value)
    with tempfile.TemporaryDirectory(prefix="kinema-") as folder:
        file = Path(folder) / name
        losses = settings.write(described, file, format)
        beside = sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file() and p != file)
        if beside:
            raise WriteError(
                f"-: {beside[0]} would have to lie beside it, which the standard output cannot have; write to a file, "
                "or what holds everything (--to usdz)"
            )
        sys.stdout.flush()
        sys.stdout.buffer.write(file.read_bytes())
        sys.stdout.buffer.flush()
    losses.path = str(STANDARD)
    return losses


def save(report: object, file: Path) -> None:
    """Write a report as JSON."""
    try:
        file.write_text(shown(json.dumps(report, indent=1, ensure_ascii=False)) + "\n", encoding="utf-8")
    except OSError as error:
        raise WriteError(f"{file}: {error.strerror or error}") from None


def _print_json(source: Path, target: Path, described: Robot | World, losses: LossReport) -> None:
    diagnostics: Sequence[object] = [d.to_json() for d in described.diagnostics]
    print_json({"file": str(source), "output": str(target), "report": losses.to_json(), "diagnostics": diagnostics})


def _print(console: Console, target: str, described: Robot | World, losses: LossReport) -> None:
    print_diagnostics(console, described.diagnostics.items, brief=True)
    print_losses(console, losses)
    n_links, n_joints = len(described.links), len(described.joints)
    words = f"{target}: {n_links} links, {n_joints} joints, {losses.summary()}"
    console.print(Text.assemble(("✓ ", "bold green"), words))
