"""Xacro files: macros and Python expressions that write a URDF file.

The package `xacro` does the expansion. By itself it is no barrier to a hostile file: the names it hides from
`${...}` can be reached from a generator or lambda inside the expression, `$(eval ...)` leaves all of Python's
built-in functions in place, and includes, `load_yaml` and `$(env ...)` reach every file and environment variable.
So the expansion runs as follows.

Contained:
- It runs in a process of its own (`xacro_worker`) with an empty environment, a limit on time, processor time and
  memory, and no rights to write a file.
- Expressions are not given to Python's `eval`. The worker walks their syntax tree itself and knows arithmetic,
  comparisons, conditions, indexing, comprehensions, xacro's own functions and a list of harmless methods; there are
  no attributes that begin with an underscore, no imports and no other functions.
- The worker opens no files. For each include, YAML file and `$(find package)` it asks this process, which answers
  within the folders that the resolver allows: for an include those around the file it stands in, and packages that
  were found. What is XML is checked like every other XML file first, so there are no entities and no endless nesting.
- An audit hook ends the worker's attempts to open files, start processes, import modules, use sockets or run code.
- Environment variables are not visible: `$(env X)` is an error, `$(optenv X default)` gives the default.

Not contained:
- Time, up to the limit: an expansion may keep a processor busy for `SECONDS`.
- What is in the allowed folders: a file may include any XML or YAML text in them and so copy it into its links.
- Defects of the Python interpreter or of the XML parser themselves: the worker is a plain process with the rights of
  its user, not a sandbox of the operating system. Give files that are suspected to attack those to a machine of
  their own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinema.foundation import Diagnostics, Origin, ReadError
from kinema.read.resolve import Resolved, Resolver, folders_around, stand_in_words, warn_of_stand_in
from kinema.read.source import read_bytes
from kinema.read.xml_text import XmlElement, parse_xml
from kinema.words import urdf

from .xacro_lines import marked, place_of, placed

SECONDS = 10.0
"""How long an expansion may take."""
MEMORY = 400 * 2**20
"""How much memory it may take [bytes]."""
MAX_TEXT = 16 * 2**20
"""How long the expansion, and each file that is included, may be [characters]."""
_MAX_REQUESTS = 5_000
_MAX_WARNINGS = 50
_USUAL_FOLDERS = {"urdf", "xacro", "robots", "robot", "description"}
"""What folders of descriptions inside a package are called."""
_WORKER = Path(__file__).with_name("xacro_worker.py")
_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "SYSTEMROOT")
"""What an interpreter may need to start at all; the worker forgets them before it reads anything."""


def is_xacro(root: XmlElement, file: Path) -> bool:
    """Whether the file has anything to expand."""
    if file.suffix.lower() == ".xacro":
        return b"xacro:" in root.source or b"$" in root.source
    return "xmlns:xacro" in root.attributes and any(e.tag.startswith("xacro:") for e in root.iterate())


@dataclass(slots=True, eq=False)
class Expanded:
    """An expanded file."""

    root: XmlElement
    packages: list[Path]
    """The packages that were found on the way; meshes may lie in them."""


def expand(
    root: XmlElement, file: Path, resolver: Resolver, arguments: dict[str, str], diagnostics: Diagnostics
) -> Expanded:
    """Expand a xacro file, or raise a `ReadError` that says what went wrong in it."""
    session = _Session(file, resolver)
    session.roots.append(root)
    request = {
        "paths": _library_paths(file),
        "file": str(session.main),
        "text": _without_declaration(marked(root, 0)),
        "arguments": {str(k): str(v) for k, v in arguments.items()},
        "seconds": SECONDS,
        "memory": MEMORY,
        "length": MAX_TEXT,
    }
    answer = _converse(session, request, file)
    if "failed" in answer:
        place = place_of(answer.get("at"), session.roots)
        where = "" if place else answer.get("where", "")
        raise ReadError(f"{place or file}: xacro: {_one_line(str(answer['failed']) + str(where))}")
    for warning in answer.get("warnings", [])[:_MAX_WARNINGS]:
        diagnostics.warning("urdf.xacro-warning", f"xacro: {_one_line(warning)}", origin=Origin(str(file)))
    for name, folder in session.stand_ins.items():
        stand_in = Resolved(folder, stand_in_words(name, folder))
        warn_of_stand_in(stand_in, diagnostics, urdf.FORMAT, Origin(str(file)))
    message = f"{file} was expanded with xacro; places are those before the expansion"
    diagnostics.note("urdf.xacro-expanded", message, origin=Origin(str(file)))
    return Expanded(placed(str(answer["done"]), session.files, f"{file} (expanded)"), session.packages)


def _library_paths(file: Path) -> list[str]:
    """The folders from which the worker imports xacro and what it needs."""
    folders: list[str] = []
    for name in ("xacro", "yaml"):
        # found, not imported: importing xacro changes how Python itself writes XML
        try:
            spec = importlib.util.find_spec(name)
        except ValueError:
            spec = None
        if spec is not None and spec.origin:
            folders.append(str(Path(spec.origin).parent.parent))
        elif name == "xacro":
            raise ReadError(f"{file}: expanding xacro files needs the package 'xacro': pip install 'kinema[xacro]'")
    return list(dict.fromkeys(folders))


def _without_declaration(text: str) -> str:
    """The text without `<?xml ...?>`, whose encoding is no longer true of it; lines keep their numbers."""
    found = re.match(r"\s*<\?xml\b.*?\?>", text, re.DOTALL)
    return text if found is None else "\n" * found.group().count("\n") + text[found.end() :]


def _one_line(text: object) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= 400 else words[:397] + "..."


# -- the conversation with the worker ---------------------------------------------------------------------------------


def _converse(session: _Session, request: dict[str, Any], file: Path) -> dict[str, Any]:
    """Start the worker, answer its questions, and return its last word."""
    environment = {k: os.environ[k] for k in _KEPT_ENVIRONMENT if k in os.environ}
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except (OSError, ValueError) as error:
        raise ReadError(f"{file}: the process that expands xacro could not be started: {error}") from None
    expired = threading.Event()

    def stop() -> None:
        expired.set()
        process.kill()

    timer = threading.Timer(SECONDS, stop)
    timer.start()
    try:
        answer = _exchange(process, session, request)
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _close(pipe)
    if answer is None:
        why = f"it takes longer than {SECONDS:g} s" if expired.is_set() else "it needs too much memory or never ends"
        raise ReadError(f"{file}: the xacro file could not be expanded: {why}")
    return answer


def _exchange(process: subprocess.Popen[str], session: _Session, request: dict[str, Any]) -> dict[str, Any] | None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send(process.stdin, request)
        while line := process.stdout.readline(4 * MAX_TEXT):
            message = json.loads(line)
            if "ask" not in message:
                return message
            _send(process.stdin, session.answer(message))
    except (OSError, ValueError, RecursionError):  # a broken pipe, or words that are no JSON: the worker is gone
        return None
    return None


def _send(pipe: Any, message: dict[str, Any]) -> None:
    pipe.write(json.dumps(message, ensure_ascii=False) + "\n")
    pipe.flush()


def _close(pipe: Any) -> None:
    with contextlib.suppress(OSError):  # what was not yet written can no longer be
        pipe.close()


@dataclass(slots=True, eq=False)
class _Session:
    """Answers the worker's questions; it trusts nothing the worker says."""

    file: Path
    resolver: Resolver
    packages: list[Path] = field(default_factory=list)
    stand_ins: dict[str, Path] = field(default_factory=dict)
    """Packages that were not found, and the folder that is taken for each."""
    main: Path = field(init=False)
    given: set[str] = field(init=False)
    """The files whose text the worker has."""
    files: list[str] = field(init=False)
    """The files whose elements are in the expansion."""
    roots: list[XmlElement] = field(default_factory=list)
    """What is in them before it."""
    left: int = 4 * MAX_TEXT
    requests: int = 0

    def __post_init__(self) -> None:
        self.main = Path(os.path.realpath(self.file))
        self.given = {str(self.main)}
        self.files = [str(self.file)]

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        if self.requests > _MAX_REQUESTS:
            return {"error": f"more than {_MAX_REQUESTS} files and packages are asked for"}
        asker = str(message.get("from", ""))
        asker_file = Path(asker) if asker in self.given else self.main
        name = str(message.get("name", ""))
        if "\x00" in name:
            return {"error": "the name holds a NUL character"}
        match message["ask"]:
            case "package":
                return self._package(name, asker_file)
            case "file":
                return self._file(Path(name), asker_file, is_xml=bool(message.get("xml")))
            case "glob":
                return self._glob(Path(name), asker_file)
            case _:
                return {"error": "unknown question"}

    def _package(self, name: str, asker: Path) -> dict[str, Any]:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
            return {"error": f"{name!r} is not a package name"}
        found = self.resolver.resolve(f"package://{name}/", asker)
        if found.path is None or not found.path.is_dir():
            folder = self._own_folder(name, asker)
            if folder is not None:
                return {"path": str(folder)}
            reason = found.reason or "it is not a folder"
            return {"error": f"package {name!r}: {reason}"}
        if found.path not in self.packages:
            self.packages.append(found.path)
        return {"path": str(found.path)}

    def _own_folder(self, package: str, asker: Path) -> Path | None:
        """The folder around a file that has no manifest but the package's name, or stands in for it.

        It gives no right to read: what may be read in it is known by place and suffix.
        """
        around, home = folders_around(asker), Path(os.path.realpath(asker)).parent
        named = next((folder for folder in around if folder.name == package), None)
        if named is None and home.name in _USUAL_FOLDERS:
            self.stand_ins.pop(package, None)  # the one asked for last stands last
            self.stand_ins[package] = home.parent if around[0] == home else around[0]
        return named or self.stand_ins.get(package)

    def _no_such_file(self, path: Path) -> str:
        problem = f"{path}: there is no such file"
        missing = [name for name, folder in self.stand_ins.items() if path.is_relative_to(folder)]
        if missing:
            problem += f", and package {missing[-1]!r} was not found; give its folder as a search path"
        return problem

    def _is_allowed(self, path: Path, asker: Path) -> bool:
        real = Path(os.path.realpath(path))
        return self.resolver.is_allowed(path, asker) or any(real.is_relative_to(p) for p in self.packages)

    def _file(self, path: Path, asker: Path, *, is_xml: bool) -> dict[str, Any]:
        if not path.exists():
            return {"error": self._no_such_file(path)}
        if not self._is_allowed(path, asker):
            reason = "it lies outside the folders that may be read; give its folder as a search path"
            return {"error": f"{path}: {reason}"}
        try:
            data = read_bytes(path, limit=min(MAX_TEXT, self.left))
            text = self._marked(parse_xml(data, str(path)), path) if is_xml else data.decode("utf-8-sig")
        except ReadError as error:
            return {"error": str(error)}
        except UnicodeError:
            return {"error": f"{path}: the text is not UTF-8"}
        self.left -= len(data)
        self.given.add(str(path))
        return {"text": _without_declaration(text) if is_xml else text}

    def _marked(self, root: XmlElement, path: Path) -> str:
        self.files.append(str(path))
        self.roots.append(root)
        return marked(root, len(self.files) - 1)

    def _glob(self, pattern: Path, asker: Path) -> dict[str, Any]:
        """The files that match; wildcards only in the last part of the path."""
        folder = pattern.parent
        if any(c in str(folder) for c in "*?["):
            return {"error": f"{pattern}: wildcards are read in the name of a file, not of a folder"}
        if not self._is_allowed(folder, asker):
            return {"error": f"{folder}: it lies outside the folders that may be read"}
        try:
            return {"paths": sorted(str(p) for p in folder.glob(pattern.name))}
        except (OSError, ValueError, NotImplementedError):  # a pattern that no file can match, as xacro takes it too
            return {"paths": []}
