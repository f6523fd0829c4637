"""Compiles a prepared MJCF model with MuJoCo, and maps MuJoCo's errors and warnings to diagnostics with file and line.

If MuJoCo rejects an element on which the kinematic tree does not depend (an actuator without joint, a flat mesh), the
element is reported and removed and the model is compiled again, so that one run reports all problems.
"""

from __future__ import annotations

import importlib
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kinema.core import Diagnostics, Origin, ReadError, XmlElement
from kinema.tokens import mjcf

from .prepare import PreparedModel

# -- import of MuJoCo --------------------------------------------------------------------------------------------------


@cache
def mujoco() -> Any:
    """The module `mujoco`, untyped because its stubs lack the enumerations."""
    return importlib.import_module("mujoco")


def start_background_import() -> None:
    """Import `mujoco` in a background thread; the import mostly waits for a GLFW version query."""

    def work() -> None:
        with suppress(Exception):  # raised again by the first use
            mujoco()

    threading.Thread(target=work, name="kinema-mujoco", daemon=True).start()


# -- serialisation with one element per line ---------------------------------------------------------------------------

_ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)
_LINE_NUMBER = re.compile(r"line\D{0,3}(\d+)")


@dataclass(slots=True, eq=False)
class ModelText:
    """XML text of a model and its attached models, with line numbers continued across the documents."""

    main: str = ""
    attached: dict[str, bytes] = field(default_factory=dict)
    elements: dict[int, XmlElement] = field(default_factory=dict)
    """Line -> element that begins on this line."""

    def element_at(self, info: str) -> XmlElement | None:
        """Element at the last line number in a message of MuJoCo; None if there is none."""
        lines = _LINE_NUMBER.findall(info)
        return self.elements.get(int(lines[-1])) if lines else None


def quote_attribute(text: str) -> str:
    """Quoted and escaped XML attribute value (`xml.sax.saxutils` would import an HTTP client)."""
    return f'"{text.translate(_ESCAPED)}"'


def serialize_model(prepared: PreparedModel) -> ModelText:
    """Serialise a prepared model for MuJoCo with one element per line."""
    result = ModelText()
    next_line = 1
    for document in prepared.document.all_documents():
        lines: list[str] = []
        _serialize_document(document.root, prepared, lines, next_line, result.elements)
        # blank lines continue the numbering of the previous documents
        text = "\n" * (next_line - 1) + "\n".join(lines)
        next_line += len(lines)
        if document is prepared.document:
            result.main = text
        else:
            result.attached[prepared.attached_model_names[id(document)]] = text.encode()
    return result


def _serialize_document(
    root: XmlElement, prepared: PreparedModel, lines: list[str], first_line: int, elements: dict[int, XmlElement]
) -> None:
    """Append the lines of one document to `lines` and record the element of each line in `elements`."""
    stack: list[XmlElement | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            lines.append(item)
            continue
        if id(item) in prepared.removed:
            continue
        elements[first_line + len(lines)] = item
        attributes = "".join(f" {name}={quote_attribute(text)}" for name, text in prepared.attributes_of(item).items())
        if item.children:
            lines.append(f"<{item.tag}{attributes}>")
            stack.append(f"</{item.tag}>")
            stack.extend(reversed(item.children))
        else:
            lines.append(f"<{item.tag}{attributes}/>")


# -- compilation -------------------------------------------------------------------------------------------------------

MAX_ATTEMPTS = 50
MAX_LENGTH_RANGE_STEPS = 200_000
"""Maximum number of simulation steps to compute actuator length ranges."""
MAX_ITERATIONS = 1_000
"""Maximum solver iterations during the computation of length ranges; the model keeps its own values."""

_ITERATION_OPTIONS = (
    "iterations",
    "ls_iterations",
    "noslip_iterations",
    "ccd_iterations",
    "sdf_iterations",
    "sdf_initpoints",
)
_OPTIONAL_SECTIONS = (
    *(mjcf.ACTUATOR, mjcf.SENSOR, mjcf.EQUALITY, mjcf.TENDON),
    *(mjcf.CONTACT, mjcf.KEYFRAME, mjcf.CUSTOM, mjcf.DEFORMABLE),
)
_ELEMENT_DETAILS = re.compile(r"\n?Element .*", re.DOTALL)
_MESSAGE_PREFIX = re.compile(r"^(?:(?:XML )?Error:\s*)+")
_KEYFRAME_MESSAGE = re.compile(r"keyframe.*Element name '(.*)', id (\d+)", re.DOTALL)
_MISSING_FILE_CODES = ("mjcf.missing-include", "mjcf.missing-model")
_LENGTH_RANGE_MESSAGE = "Lengthrange computation"
_NAN_MESSAGE = "contains a 'NaN'"
_handler_lock = threading.Lock()


@dataclass(slots=True, eq=False)
class CompiledModel:
    """A model compiled by MuJoCo, with the mapping back to its files."""

    prepared: PreparedModel
    text: ModelText
    spec: Any
    """`mujoco.MjSpec`: names, default classes and source lines."""
    model: Any
    """`mujoco.MjModel`: all defaults applied, SI units."""


class _CompileError(Exception):
    """MuJoCo's parser or compiler rejects the model."""


def compile_model(prepared: PreparedModel, diagnostics: Diagnostics) -> CompiledModel:
    """Compile a prepared model, removing rejected optional elements; raises `ReadError` with reason and origin."""
    ranges = True
    optional = _optional_elements(prepared)
    reason = ""
    for _ in range(MAX_ATTEMPTS):
        text = serialize_model(prepared)
        try:
            spec, model, notes = _try_compile(text, prepared, with_length_ranges=ranges)
        except _CompileError as error:
            reason = str(error)
            if _LENGTH_RANGE_MESSAGE in reason and ranges:
                ranges = False
                _warn_no_length_ranges(_clean_message(reason, prepared), prepared, diagnostics)
            else:
                element = text.element_at(reason) or _find_keyframe(reason, prepared)
                _remove_or_raise(element, reason, prepared, optional, diagnostics)
            continue
        for note in notes:
            if _NAN_MESSAGE not in note:
                message = _clean_message(note, prepared)
                diagnostics.warning(
                    "mjcf.mujoco-warning", message, origin=_element_origin(text.element_at(note), prepared)
                )
        return CompiledModel(prepared, text, spec, model)
    last, cause = _clean_message(reason, prepared), _missing_file_message(diagnostics)
    raise ReadError(
        f"{prepared.document.file}: more than {MAX_ATTEMPTS} elements are wrong; the last reason: {last}{cause}"
    )


# -- calls of MuJoCo ---------------------------------------------------------------------------------------------------


def _try_compile(text: ModelText, prepared: PreparedModel, *, with_length_ranges: bool) -> tuple[Any, Any, list[str]]:
    """Parse and compile in a separate thread; raises `_CompileError` with MuJoCo's message.

    An exception that MuJoCo does not expect leaves the log handler of its thread in endless recursion, so each attempt
    has a new thread.
    """
    done: list[tuple[Any, Any, list[str]] | Exception] = []

    def work() -> None:
        try:
            done.append(_parse_and_compile(text, prepared, with_length_ranges))
        except Exception as error:
            done.append(error)

    thread = threading.Thread(target=work, name="kinema-mjcf")
    thread.start()
    thread.join()
    if isinstance(done[0], Exception):
        raise done[0]
    return done[0]


def _parse_and_compile(
    text: ModelText, prepared: PreparedModel, with_length_ranges: bool
) -> tuple[Any, Any, list[str]]:
    """Parse and compile with MuJoCo; returns spec, model and captured warnings."""
    mj = mujoco()
    notes: list[str] = []
    try:
        with _capture_warnings(notes):
            if hasattr(mj, "MjVfs"):
                with mj.MjVfs() as memory:
                    for name, data in {**prepared.files, **text.attached}.items():
                        memory[name] = data
                    spec = mj.MjSpec.from_string(text.main, vfs=memory)
                    return spec, _compile(spec, notes, with_length_ranges, vfs=memory), notes
            spec = mj.MjSpec.from_string(text.main, include=text.attached, assets=prepared.files)  # early MuJoCo 3
            return spec, _compile(spec, notes, with_length_ranges), notes
    except (ValueError, RuntimeError, MemoryError, TypeError, UnicodeError, mj.FatalError) as error:
        raise _CompileError(str(error)) from None


BASE_MEMORY, MEMORY_PER_BODY = 2**28, 2**17
"""Memory for MuJoCo's compiler where a file does not set it [B]: the default grows with the square of the number of
degrees of freedom, more than a machine has with 10,000 free bodies."""


def _compile(spec: Any, notes: list[str], with_length_ranges: bool, **memory: Any) -> Any:
    """Compile a spec with bounded solver iterations and without length ranges that would take too long."""
    mj = mujoco()
    # MuJoCo's compiler threads would call the Python warning handler
    spec.compiler.usethread = False
    if not with_length_ranges or _length_range_steps(spec) > MAX_LENGTH_RANGE_STEPS:
        spec.compiler.LRopt.mode = mj.mjtLRMode.mjLRMODE_NONE.value
        if with_length_ranges:
            notes.append("finding the length ranges of the muscles would take too long; they are left as given")
    if getattr(spec, "memory", 0) < 0:
        spec.memory = BASE_MEMORY + MEMORY_PER_BODY * len(spec.bodies)
    iterations = {name: getattr(spec.option, name) for name in _ITERATION_OPTIONS if hasattr(spec.option, name)}
    for name, value in iterations.items():
        setattr(spec.option, name, min(value, MAX_ITERATIONS))
    model = spec.compile(**memory)
    for name, value in iterations.items():
        setattr(model.opt, name, value)
    return model


def _length_range_steps(spec: Any) -> float:
    """Estimated number of simulation steps of the length range computation."""
    mj = mujoco()
    options = spec.compiler.LRopt
    if options.mode == mj.mjtLRMode.mjLRMODE_NONE.value:
        return 0.0
    everything = options.mode == mj.mjtLRMode.mjLRMODE_ALL.value
    muscles = (mj.mjtGain.mjGAIN_MUSCLE, mj.mjtGain.mjGAIN_USER)
    n_actuators = sum(1 for a in spec.actuators if everything or a.gaintype in muscles)
    return 2 * n_actuators * options.inttotal / max(options.timestep, 1e-9)


@contextmanager
def _capture_warnings(notes: list[str]) -> Iterator[None]:
    """Context manager that appends MuJoCo's warnings to a list instead of stderr or a log file."""
    mj = mujoco()
    with _handler_lock, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        previous = mj.get_mju_user_warning()
        mj.set_mju_user_warning(lambda message: notes.append(str(message)))
        try:
            yield
        finally:
            mj.set_mju_user_warning(previous)
            notes += [str(w.message) for w in caught if issubclass(w.category, UserWarning)]


# -- mapping of MuJoCo's messages --------------------------------------------------------------------------------------


def _optional_elements(prepared: PreparedModel) -> dict[int, XmlElement]:
    """`id` of every element on which the kinematic tree does not depend -> the removable element around it."""
    found: dict[int, XmlElement] = {}
    for document in prepared.document.all_documents():
        for section in document.root.children:
            if section.tag in _OPTIONAL_SECTIONS:
                found |= {id(part): element for element in section.children for part in element.iterate()}
        found |= {id(e): e for e in document.root.iterate() if e.tag == "attach"}
    return found


def _find_keyframe(reason: str, prepared: PreparedModel) -> XmlElement | None:
    """Keyframe element that an error message names by name or index (the message has no line)."""
    match = _KEYFRAME_MESSAGE.search(reason)
    if match is None:
        return None
    name, index = match.group(1), int(match.group(2))
    sections = (s for part in prepared.document.all_documents() for s in part.root.find_all(mjcf.KEYFRAME))
    keys = [k for section in sections for k in section.find_all(mjcf.KEY) if id(k) not in prepared.removed]
    named = [k for k in keys if name and name.endswith(k.attributes.get("name") or name)]
    return next(iter(named or keys[index:]), None)


def _remove_or_raise(
    element: XmlElement | None,
    reason: str,
    prepared: PreparedModel,
    optional: dict[int, XmlElement],
    diagnostics: Diagnostics,
) -> None:
    """Report and remove (or replace by a placeholder) a rejected element; raise `ReadError` if it is mandatory."""
    message = _clean_message(reason, prepared)
    if element is not None and element.tag == mjcf.MESH:
        asset = prepared.assets.get(id(element))
        if asset is None or asset.usable:
            diagnostics.error("mjcf.unusable-mesh", f"{_element_label(element)}: {message}", origin=element.origin)
            prepared.use_placeholder_mesh(element)
            return
    if element is not None and id(element) in optional and id(optional[id(element)]) not in prepared.removed:
        whole = optional[id(element)]
        diagnostics.error("mjcf.left-out", f"{_element_label(whole)} is left out: {message}", origin=element.origin)
        prepared.removed.add(id(whole))
        return
    label = f"{_element_label(element)}: " if element else ""
    raise ReadError(f"{_element_origin(element, prepared)}: {label}{message}{_missing_file_message(diagnostics)}")


def _missing_file_message(diagnostics: Diagnostics) -> str:
    """Suffix of an error message that names a missing include, a likely cause of the error."""
    missing = next((d for d in diagnostics if d.code in _MISSING_FILE_CODES), None)
    return "" if missing is None else f" (before that, {missing.origin}: {missing.message})"


def _warn_no_length_ranges(reason: str, prepared: PreparedModel, diagnostics: Diagnostics) -> None:
    diagnostics.error(
        "mjcf.length-range",
        f"the length ranges of the actuators cannot be found and are left as given: {reason}",
        hint="give joint limits, or 'lengthrange' on the actuators",
        origin=Origin(str(prepared.document.file)),
    )


def _element_label(element: XmlElement) -> str:
    name = element.attributes.get("name")
    if not name:
        return f"<{element.tag}>"
    return f'<{element.tag}> "{name if len(name) <= 60 else name[:57] + "..."}"'


def _clean_message(reason: str, prepared: PreparedModel) -> str:
    """MuJoCo's message as one sentence, with the file names used in the model."""
    reason = _MESSAGE_PREFIX.sub("", _ELEMENT_DETAILS.sub("", reason.strip()))
    for virtual, uri in prepared.uris.items():
        reason = reason.replace(virtual, uri)
    reason = " ".join(reason.split())
    if not reason or "unknown exception" in reason:
        return "MuJoCo failed on the model without a reason; it may have run out of memory"
    return reason if len(reason) <= 500 else reason[:497] + "..."


def _element_origin(element: XmlElement | None, prepared: PreparedModel) -> Origin:
    return Origin(str(prepared.document.file)) if element is None else element.origin
