"""The files that are included, each found, opened and parsed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kinema.foundation import Diagnostics, ReadError
from kinema.words import sdf

from ..cursor import Cursor
from ..resolve import Resolver
from ..source import read_bytes
from ..xml_repair import parse_tolerant
from ..xml_text import XmlElement, parse_xml
from .builtin import BUILTIN
from .elements import RootElement
from .version import NEWEST, parse_version

MAX_INCLUDE_DEPTH = 32
"""How many files may include one another in a row."""


@dataclass(slots=True, eq=False)
class Library:
    """The files that were included so far, each parsed once."""

    resolver: Resolver
    diagnostics: Diagnostics
    parse: Callable[[XmlElement, Library, Diagnostics], RootElement]
    open_files: list[Path] = field(default_factory=list)
    """The files being read, each included by the one before."""
    roots: dict[str, RootElement | None] = field(default_factory=dict)
    is_full: bool = False
    """Whether it was said that more is included than is read."""

    def load(self, cursor: Cursor, uri: str) -> RootElement | None:
        """The document that a reference leads to; None, with an error, where there is none to be had."""
        found = self.resolver.resolve(uri, cursor.origin.file)
        if found.path is None:
            builtin = BUILTIN.get(uri.removeprefix("model://").strip("/"))
            if builtin is None:
                hint = "give the folder that holds it as a search path"
                cursor.error("include-not-found", f"<include> of {uri!r}: {found.reason}", hint)
                return None
            cursor.warning("builtin-model", f"{uri!r} was not found; a built-in model of that name stands in for it")
            return self._parse_once(cursor, f"builtin:{uri}", lambda: parse_xml(builtin.encode(), f"<built-in {uri}>"))
        path = found.path
        if path.is_dir():
            file = self._model_file(path, cursor)
            if file is None:
                return None
            path = file
        return self._load_file(cursor, path, uri)

    def _load_file(self, cursor: Cursor, path: Path, uri: str) -> RootElement | None:
        if path in self.open_files:
            chain = " includes ".join(p.name for p in [*self.open_files[self.open_files.index(path) :], path])
            cursor.error("circular-include", f"<include> of {uri!r} runs in a circle: {chain}", "it is left out")
            return None
        if len(self.open_files) >= MAX_INCLUDE_DEPTH:
            problem = f"<include> of {uri!r}: files include one another more than {MAX_INCLUDE_DEPTH} deep"
            cursor.error("include-too-deep", problem, "it is left out")
            return None
        self.open_files.append(path)
        try:
            return self._parse_once(cursor, str(path), lambda: self._open(path))
        finally:
            self.open_files.pop()

    def _open(self, path: Path) -> XmlElement:
        return parse_tolerant(read_bytes(path), str(path), self.diagnostics, "sdf")

    def _parse_once(self, cursor: Cursor, key: str, open_document: Callable[[], XmlElement]) -> RootElement | None:
        if key in self.roots:
            return self.roots[key]
        root = None
        try:
            element = open_document()
            if element.tag == "robot":
                hint = "convert it to SDFormat first"
                cursor.error("include-urdf", f"<include> of {Path(key).name}: URDF inside SDFormat is not read", hint)
            else:
                root = self.parse(element, self, self.diagnostics)
        except ReadError as error:
            cursor.error("include-unreadable", f"<include>: {error}", "it is left out")
        self.roots[key] = root
        return root

    def _model_file(self, folder: Path, cursor: Cursor) -> Path | None:
        """The file that a model's folder names in its `model.config`: the one with the newest version we read."""
        config = next((folder / n for n in ("model.config", "manifest.xml") if (folder / n).is_file()), None)
        if config is None:
            cursor.error("include-not-found", f"the folder {folder.name!r} has no model.config", "name a file in it")
            return None
        try:
            manifest = self._open(config)
        except ReadError as error:
            cursor.error("include-unreadable", f"<include>: {error}")
            return None
        choice = _newest_supported(manifest)
        if choice is None:
            cursor.error("include-not-found", f"{config.name} of {folder.name!r} names no file that can be read")
            return None
        found = self.resolver.resolve(choice.text, config)
        if found.path is None or not found.path.is_file():
            reason = found.reason or "it is not a file"
            cursor.error("include-not-found", f"{config.name} of {folder.name!r} names {choice.text!r}: {reason}")
            return None
        return found.path


def _newest_supported(manifest: XmlElement) -> XmlElement | None:
    """The `<sdf>` entry with the highest version up to ours; without any, one that is too new."""
    entries = [e for e in manifest.children if e.tag == sdf.FORMAT and e.text]
    versions = {id(e): parse_version(e.attributes.get("version")) or NEWEST for e in entries}
    supported = [e for e in entries if versions[id(e)] <= NEWEST]
    if supported:
        return max(supported, key=lambda e: versions[id(e)])
    return min(entries, key=lambda e: versions[id(e)], default=None)
