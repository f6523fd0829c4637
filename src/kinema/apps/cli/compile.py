"""`kinema compile`: compiles robots to C libraries, and prints their files, sizes and messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from kinema.core import KinemaError, to_identifier, unique_name

from ..aot import CompiledLibrary, compile_library
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
class CompileOptions:
    """Options of `kinema compile`."""

    out: Path
    name: str | None
    functions: str | None
    """Names with commas between; None for all that the target has."""
    precision: str | None
    target: str
    contacts: bool
    ik_links: list[str] | None
    json: bool


def compile_files(files: Sequence[Path], options: CompileOptions, read_settings: ReadSettings) -> int:
    """Compile each file to a library; returns the exit status. Several get folders of their names in `out`."""
    functions = None
    if options.functions is not None:
        functions = [name.strip() for name in options.functions.split(",") if name.strip()]
    status, summaries, taken = 0, list[dict[str, Any]](), set[str]()
    for file in files:
        try:
            with open_input(file, read_settings) as (name, settings):
                described = read_file(name, settings)
            folder = options.out
            if len(files) > 1:
                folder = options.out / unique_name(to_identifier(described.name), taken)
                taken.add(folder.name)
            library = compile_library(
                described,
                folder,
                name=options.name,
                functions=functions,
                precision=options.precision,
                target=options.target,
                contacts=options.contacts,
                ik_links=options.ik_links,
                errors="keep",
            )
        except KinemaError as error:
            return report_failure(error, options.json)
        status = max(status, exit_status(library.diagnostics.items))
        summaries.append(_summary(file, library))
        if not options.json:
            _print_library(file, library)
    if options.json:
        print_json(summaries[0] if len(files) == 1 else summaries)
    return status


def _summary(file: Path, library: CompiledLibrary) -> dict[str, Any]:
    """Summary as JSON values."""
    return {
        "file": str(file),
        "name": library.name,
        "target": library.target,
        "code_bytes": library.code_bytes,
        "stack_bytes": library.stack_bytes,
        "files": {kind: str(path) for kind, path in library.files.items()},
        "diagnostics": [item.to_json() for item in library.diagnostics.items],
    }


def _print_library(file: Path, library: CompiledLibrary) -> None:
    console = output_console()
    print_diagnostics(console, library.diagnostics.items)
    console.print(f"{file}: library {library.name} for {library.target}, {library.code_bytes:,} bytes")
    functions = Table("function", "stack \\[bytes]")
    for name, stack in library.stack_bytes.items():
        functions.add_row(f"{library.name}_{name}", f"{stack:,}")
    console.print(functions)
    for path in library.files.values():
        console.print(f"  {path}", soft_wrap=True)
