"""Expands xacro files in a confined subprocess, and maps the expanded elements back to their file and line.

The package `xacro` does the expansion. By itself it is no protection against a hostile file: the names hidden from
`${...}` can be reached from a generator or lambda in an expression, `$(eval ...)` exposes all built-in functions of
Python, and includes, `load_yaml` and `$(env ...)` reach every file and environment variable. Security properties of the
expansion:

- It runs in a subprocess (`xacro_worker`) with an empty environment, limits on wall-clock time, processor time and
  memory, and no permission to write files.

- Expressions are evaluated by walking their syntax tree (`xacro_expression`), not by Python's `eval`.

- The subprocess opens no files. For each include, YAML file and `$(find package)` it sends a request to this process,
  which answers within the folders allowed by the resolver. XML is validated first (no entities, bounded nesting).

- An audit hook blocks opening files, starting processes, importing modules, sockets and running code.

- Environment variables are not visible: `$(env X)` is an error, `$(optenv X default)` gives the default.

Not prevented: processor time up to the limit `SECONDS`; copying of XML or YAML text from the allowed folders; defects
of the Python interpreter or XML parser, because the subprocess runs with the user's permissions and is not a sandbox of
the operating system.
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinema.core import Diagnostics, Origin, ReadError, XmlElement, parse_xml
from kinema.tokens import urdf

from ..resolve import (
    Resolved,
    Resolver,
    candidate_package_folders,
    read_bytes,
    substitute_package_message,
    warn_about_substitute_package,
)

# -- source locations of elements --------------------------------------------------------------------------------------

_LINE_ATTRIBUTE = "kinema-line"
_LINE_ATTRIBUTE_TEXT = re.compile(rf' {_LINE_ATTRIBUTE}="\d+:\d+"')
_LINE_ATTRIBUTE_VALUE = re.compile(r"(\d+):(\d+)")


def add_line_attributes(root: XmlElement, file_number: int) -> str:
    """XML text with a file and line attribute added to each element, except elements of xacro.

    Xacro copies attributes to the expanded elements, so the attributes give the origin of each expanded element.
    """
    source = root.source
    pieces: list[bytes] = []
    done = 0
    for element in root.iterate():
        if element.tag.startswith("xacro:") or _LINE_ATTRIBUTE in element.attributes:
            continue
        offset = element.start + 1 + len(element.tag.encode())
        pieces += [source[done:offset], f' {_LINE_ATTRIBUTE}="{file_number}:{element.line}"'.encode()]
        done = offset
    return b"".join([*pieces, source[done:]]).decode("utf-8", "replace")


def restore_lines(text: str, files: list[str], label: str) -> XmlElement:
    """Parse an expanded document and set the origin of its elements from the line attributes.

    The attributes are removed; elements without one get the origin of their parent. `label` is the file name in errors.
    """
    with_marks = parse_xml(text.encode(), label)
    root = parse_xml(_LINE_ATTRIBUTE_TEXT.sub("", text).encode(), label)
    parent_of: dict[int, XmlElement] = {id(c): e for e in root.iterate() for c in e.children}
    for element, marked in zip(root.iterate(), with_marks.iterate(), strict=True):
        found = _LINE_ATTRIBUTE_VALUE.fullmatch(marked.attributes.get(_LINE_ATTRIBUTE, ""))
        file_index = int(found[1]) if found else len(files)
        if found and file_index < len(files):
            element.file, element.line = files[file_index], int(found[2])
        elif id(element) in parent_of:
            outer = parent_of[id(element)]
            element.file, element.line = outer.file, outer.line
    return root


def locate_element(element: object, roots: Sequence[XmlElement]) -> str:
    """File and line of an element whose expansion failed; empty if unknown.

    Args:
        element: report of the subprocess: tag, attributes and nearest line attribute.
        roots: documents before the expansion, by file index.
    """
    report = element if isinstance(element, dict) else {}
    found = _LINE_ATTRIBUTE_VALUE.fullmatch(str(report.get("mark", "")))
    if found is None or int(found[1]) >= len(roots):
        return ""
    root, line = roots[int(found[1])], int(found[2])
    given = report.get("attributes")
    if (
        isinstance(given, dict) and _LINE_ATTRIBUTE not in given
    ):  # xacro's elements have no line attribute: next equal element
        alike = (e for e in root.iterate() if (e.tag, e.attributes) == (report.get("tag"), given) and e.line >= line)
        line = next((e.line for e in alike), line)
    return f"{root.file}:{line}"


# -- expansion ---------------------------------------------------------------------------------------------------------

SECONDS = 10.0
"""Time limit of an expansion [s]."""
MEMORY = 400 * 2**20
"""Memory limit of an expansion [bytes]."""
MAX_TEXT = 16 * 2**20
"""Maximum length of the expansion and of each included file [characters]."""
_MAX_REQUESTS = 5_000
_MAX_WARNINGS = 50
_DESCRIPTION_FOLDERS = {"urdf", "xacro", "robots", "robot", "description"}
"""Usual names of description folders inside of a package."""
_WORKER = Path(__file__).with_name("xacro_worker.py")
_PASSED_ENVIRONMENT = ("LD_LIBRARY_PATH", "SYSTEMROOT")
"""Environment variables that an interpreter may need to start; cleared by the subprocess."""


def is_xacro(root: XmlElement, file: Path) -> bool:
    """Whether a file contains xacro content to expand."""
    if file.suffix.lower() == ".xacro":
        return b"xacro:" in root.source or b"$" in root.source
    return "xmlns:xacro" in root.attributes and any(e.tag.startswith("xacro:") for e in root.iterate())


@dataclass(slots=True, eq=False)
class ExpandedXacro:
    """Result of an expansion."""

    root: XmlElement
    packages: list[Path]
    """Packages found during the expansion; they may contain meshes."""


def expand_xacro(
    root: XmlElement, file: Path, resolver: Resolver, arguments: dict[str, str], diagnostics: Diagnostics
) -> ExpandedXacro:
    """Expand a xacro file in a subprocess; raises `ReadError` with the reason and location of a failure."""
    session = _WorkerSession(file, resolver)
    session.roots.append(root)
    request = {
        "paths": _library_paths(file),
        "file": str(session.main),
        "text": _without_declaration(add_line_attributes(root, 0)),
        "arguments": {str(k): str(v) for k, v in arguments.items()},
        "seconds": SECONDS,
        "memory": MEMORY,
        "length": MAX_TEXT,
    }
    answer = _run_worker(session, request, file)
    if "failed" in answer:
        location = locate_element(answer.get("at"), session.roots)
        where = "" if location else answer.get("where", "")
        raise ReadError(f"{location or file}: xacro: {_one_line(str(answer['failed']) + str(where))}")
    for warning in answer.get("warnings", [])[:_MAX_WARNINGS]:
        diagnostics.warning("urdf.xacro-warning", f"xacro: {_one_line(warning)}", origin=Origin(str(file)))
    for name, folder in session.substitute_packages.items():
        substitute = Resolved(folder, substitute_package_message(name, folder))
        warn_about_substitute_package(substitute, diagnostics, urdf.FORMAT, Origin(str(file)))
    message = f"{file} was expanded with xacro; places are those before the expansion"
    diagnostics.note("urdf.xacro-expanded", message, origin=Origin(str(file)))
    return ExpandedXacro(restore_lines(str(answer["done"]), session.files, f"{file} (expanded)"), session.packages)


def _library_paths(file: Path) -> list[str]:
    """Folders from which the subprocess imports xacro and YAML."""
    folders: list[str] = []
    for name in ("xacro", "yaml"):
        # not imported: importing xacro changes Python's XML serialisation
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
    """Text without `<?xml ...?>`, whose encoding no longer applies; line numbers are preserved."""
    found = re.match(r"\s*<\?xml\b.*?\?>", text, re.DOTALL)
    return text if found is None else "\n" * found.group().count("\n") + text[found.end() :]


def _one_line(text: object) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= 400 else words[:397] + "..."


# -- protocol of the subprocess ----------------------------------------------------------------------------------------


def _run_worker(session: _WorkerSession, request: dict[str, Any], file: Path) -> dict[str, Any]:
    """Run the subprocess, serve its requests and return its result; raises `ReadError` on timeout or crash."""
    environment = {k: os.environ[k] for k in _PASSED_ENVIRONMENT if k in os.environ}
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
        answer = _serve_requests(process, session, request)
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                _close_pipe(pipe)
    if answer is None:
        why = f"it takes longer than {SECONDS:g} s" if expired.is_set() else "it needs too much memory or never ends"
        raise ReadError(f"{file}: the xacro file could not be expanded: {why}")
    return answer


def _serve_requests(
    process: subprocess.Popen[str], session: _WorkerSession, request: dict[str, Any]
) -> dict[str, Any] | None:
    """Exchange messages with the subprocess until its result; None if it ends without one."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        _send_message(process.stdin, request)
        while line := process.stdout.readline(4 * MAX_TEXT):
            message = json.loads(line)
            if "ask" not in message:
                return message
            _send_message(process.stdin, session.answer(message))
    except (OSError, ValueError, RecursionError):  # broken pipe or invalid JSON: the subprocess has ended
        return None
    return None


def _send_message(pipe: Any, message: dict[str, Any]) -> None:
    pipe.write(json.dumps(message, ensure_ascii=False) + "\n")
    pipe.flush()


def _close_pipe(pipe: Any) -> None:
    with contextlib.suppress(OSError):  # unwritten data is discarded
        pipe.close()


@dataclass(slots=True, eq=False)
class _WorkerSession:
    """Answers the requests of the subprocess, which is not trusted."""

    file: Path
    resolver: Resolver
    packages: list[Path] = field(default_factory=list)
    substitute_packages: dict[str, Path] = field(default_factory=dict)
    """Missing package -> folder used in its place."""
    main: Path = field(init=False)
    sent_files: set[str] = field(init=False)
    """Files whose text was sent to the subprocess."""
    files: list[str] = field(init=False)
    """Files of the elements in the expansion, by file index."""
    roots: list[XmlElement] = field(default_factory=list)
    """Documents of `files` before the expansion."""
    characters_left: int = 4 * MAX_TEXT
    n_requests: int = 0

    def __post_init__(self) -> None:
        self.main = Path(os.path.realpath(self.file))
        self.sent_files = {str(self.main)}
        self.files = [str(self.file)]

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer to a request for a package, file or glob pattern."""
        self.n_requests += 1
        if self.n_requests > _MAX_REQUESTS:
            return {"error": f"more than {_MAX_REQUESTS} files and packages are asked for"}
        asker = str(message.get("from", ""))
        asker_file = Path(asker) if asker in self.sent_files else self.main
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
        """Folder of a package, or an error."""
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", name):
            return {"error": f"{name!r} is not a package name"}
        found = self.resolver.resolve(f"package://{name}/", asker)
        if found.path is None or not found.path.is_dir():
            folder = self._substitute_folder(name, asker)
            if folder is not None:
                return {"path": str(folder)}
            reason = found.reason or "it is not a folder"
            return {"error": f"package {name!r}: {reason}"}
        if found.path not in self.packages:
            self.packages.append(found.path)
        return {"path": str(found.path)}

    def _substitute_folder(self, package: str, asker: Path) -> Path | None:
        """Folder around a file with the name of the package, or a substitute for a missing package.

        It grants no read access: readable files are determined by location and suffix.
        """
        candidates, home = candidate_package_folders(asker), Path(os.path.realpath(asker)).parent
        named = next((folder for folder in candidates if folder.name == package), None)
        if named is None and home.name in _DESCRIPTION_FOLDERS:
            self.substitute_packages.pop(package, None)  # the most recent request comes last
            self.substitute_packages[package] = home.parent if candidates[0] == home else candidates[0]
        return named or self.substitute_packages.get(package)

    def _no_such_file(self, path: Path) -> str:
        problem = f"{path}: there is no such file"
        missing = [name for name, folder in self.substitute_packages.items() if path.is_relative_to(folder)]
        if missing:
            problem += f", and package {missing[-1]!r} was not found; give its folder as a search path"
        return problem

    def _is_allowed(self, path: Path, asker: Path) -> bool:
        real = Path(os.path.realpath(path))
        return self.resolver.is_allowed(path, asker) or any(real.is_relative_to(p) for p in self.packages)

    def _file(self, path: Path, asker: Path, *, is_xml: bool) -> dict[str, Any]:
        """Text of a file within the allowed folders, or an error; XML is validated first."""
        if not path.exists():
            return {"error": self._no_such_file(path)}
        if not self._is_allowed(path, asker):
            reason = "it lies outside the folders that may be read; give its folder as a search path"
            return {"error": f"{path}: {reason}"}
        try:
            data = read_bytes(path, limit=min(MAX_TEXT, self.characters_left))
            text = self._with_line_attributes(parse_xml(data, str(path)), path) if is_xml else data.decode("utf-8-sig")
        except ReadError as error:
            return {"error": str(error)}
        except UnicodeError:
            return {"error": f"{path}: the text is not UTF-8"}
        self.characters_left -= len(data)
        self.sent_files.add(str(path))
        return {"text": _without_declaration(text) if is_xml else text}

    def _with_line_attributes(self, root: XmlElement, path: Path) -> str:
        self.files.append(str(path))
        self.roots.append(root)
        return add_line_attributes(root, len(self.files) - 1)

    def _glob(self, pattern: Path, asker: Path) -> dict[str, Any]:
        """Matching files; wildcards are allowed only in the last path component."""
        folder = pattern.parent
        if any(c in str(folder) for c in "*?["):
            return {"error": f"{pattern}: wildcards are read in the name of a file, not of a folder"}
        if not self._is_allowed(folder, asker):
            return {"error": f"{folder}: it lies outside the folders that may be read"}
        try:
            return {"paths": sorted(str(p) for p in folder.glob(pattern.name))}
        except (OSError, ValueError, NotImplementedError):  # invalid patterns match nothing, as in xacro
            return {"paths": []}
