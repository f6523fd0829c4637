"""Writing so that there is either the whole result or none: into a folder beside the target, then a rename."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from types import TracebackType

from .errors import ExportError
from .meshes import safe_name

SNAPSHOT = "snapshot.json"
MARKER = "cad-snapshot"


class OutputFolder:
    """A new folder that becomes the result when it is committed, and vanishes when it is not."""

    def __init__(self, parent: str, name: str) -> None:
        if not os.path.isdir(parent):
            raise ExportError(f"There is no folder {parent}.")
        self.parent = parent
        self.name = safe_name(name)
        self.path = ""

    def __enter__(self) -> OutputFolder:
        try:
            self.path = tempfile.mkdtemp(prefix=f".{self.name}-", dir=self.parent)
        except OSError as error:
            raise ExportError(f"The folder {self.parent} cannot be written to: {error.strerror}.") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)

    def commit(self) -> str:
        """Put the folder in its place; an earlier snapshot there is replaced, anything else is left alone."""
        target = os.path.join(self.parent, self.name)
        number = 1
        while os.path.lexists(target) and not is_snapshot(target):
            number += 1
            target = os.path.join(self.parent, f"{self.name}_{number}")
        os.chmod(self.path, 0o755)  # mkdtemp gives a folder that nobody else may read
        old = ""
        if os.path.lexists(target):
            old = tempfile.mkdtemp(prefix=f".{self.name}-old-", dir=self.parent)
            os.rename(target, os.path.join(old, "snapshot"))
        try:
            os.rename(self.path, target)
        except OSError:
            if old:
                os.rename(os.path.join(old, "snapshot"), target)
                shutil.rmtree(old, ignore_errors=True)
            raise
        self.path = ""
        if old:
            shutil.rmtree(old, ignore_errors=True)
        return target


def is_snapshot(folder: str) -> bool:
    """Whether a folder is one that this add-in wrote."""
    try:
        with open(os.path.join(folder, SNAPSHOT), encoding="utf-8") as file:
            return f'"{MARKER}"' in file.read(4096)
    except (OSError, UnicodeDecodeError):
        return False


def format_json(value: object, indent: str = "") -> str:
    """JSON text in which lists of numbers, such as matrices, stand on one line each."""
    inner = indent + " "
    if isinstance(value, dict) and value:
        lines = [f"{json.dumps(k, ensure_ascii=False)}: {format_json(v, inner)}" for k, v in value.items()]
        ends = "{}"
    elif isinstance(value, list) and any(isinstance(v, (dict, list)) for v in value):
        lines = [format_json(v, inner) for v in value]
        ends = "[]"
    else:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    return f"{ends[0]}\n{inner}" + f",\n{inner}".join(lines) + f"\n{indent}{ends[1]}"


def write_json(folder: str, value: object) -> None:
    """The snapshot's text; numbers with all their digits, and never NaN."""
    try:
        text = format_json(value)
    except ValueError as error:
        raise ExportError(f"The program gave a number that is none: {error}.") from error
    with open(os.path.join(folder, SNAPSHOT), "w", encoding="utf-8", newline="\n") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
