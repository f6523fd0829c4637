"""The prepared model through MuJoCo's own parser and compiler, which know what MJCF means.

Their complaints become diagnostics with the file and line of the element. Where they refuse an element that the tree
of bodies does not rest on (an actuator without its joint, a flat mesh), it is reported and left out, and the model is
compiled again: one run lists all problems.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kinema.foundation import Diagnostics, Origin, ReadError
from kinema.read.xml_text import XmlElement
from kinema.words import mjcf

from .engine import mujoco
from .prepare import Prepared
from .xml_out import Text, write_text

MAX_ATTEMPTS = 50
MAX_LENGTH_RANGE_STEPS = 200_000
"""Simulation steps that finding the length ranges of muscles may take."""
MAX_ITERATIONS = 1_000
"""Of any solver while length ranges are found; the model's own numbers are kept."""

_ITERATIONS = ("iterations", "ls_iterations", "noslip_iterations", "ccd_iterations", "sdf_iterations", "sdf_initpoints")
_OPTIONAL_SECTIONS = (
    *(mjcf.ACTUATOR, mjcf.SENSOR, mjcf.EQUALITY, mjcf.TENDON),
    *(mjcf.CONTACT, mjcf.KEYFRAME, mjcf.CUSTOM, mjcf.DEFORMABLE),
)
_ELEMENT_LINE = re.compile(r"\n?Element .*", re.DOTALL)
_PREFIX = re.compile(r"^(?:(?:XML )?Error:\s*)+")
_KEYFRAME = re.compile(r"keyframe.*Element name '(.*)', id (\d+)", re.DOTALL)
_MISSING_PARTS = ("mjcf.missing-include", "mjcf.missing-model")
_LENGTH_RANGE = "Lengthrange computation"
_ABOUT_NAN = "contains a 'NaN'"
_handlers = threading.Lock()


@dataclass(slots=True, eq=False)
class Compiled:
    """A model as MuJoCo understands it, and the way back to its files."""

    prepared: Prepared
    text: Text
    spec: Any
    """`mujoco.MjSpec`: names, classes and the lines that elements come from."""
    model: Any
    """`mujoco.MjModel`: every default applied, every number in SI."""


class _Refused(Exception):
    """MuJoCo's parser or compiler does not take the model."""


def compile_model(prepared: Prepared, diagnostics: Diagnostics) -> Compiled:
    """The compiled model, or a `ReadError` with MuJoCo's reason and the place."""
    ranges = True
    optional = _optional_elements(prepared)
    reason = ""
    for _ in range(MAX_ATTEMPTS):
        text = write_text(prepared)
        try:
            spec, model, notes = _run(text, prepared, ranges=ranges)
        except _Refused as refused:
            reason = str(refused)
            if _LENGTH_RANGE in reason and ranges:
                ranges = False
                _no_length_ranges(_clean(reason, prepared), prepared, diagnostics)
            else:
                element = text.element_at(reason) or _keyframe(reason, prepared)
                _leave_out(element, reason, prepared, optional, diagnostics)
            continue
        for note in notes:
            if _ABOUT_NAN not in note:
                message = _clean(note, prepared)
                diagnostics.warning("mjcf.mujoco-warning", message, origin=_origin(text.element_at(note), prepared))
        return Compiled(prepared, text, spec, model)
    last, cause = _clean(reason, prepared), _first_cause(diagnostics)
    raise ReadError(
        f"{prepared.document.file}: more than {MAX_ATTEMPTS} elements are wrong; the last reason: {last}{cause}"
    )


# -- MuJoCo -----------------------------------------------------------------------------------------------------------


def _run(text: Text, prepared: Prepared, *, ranges: bool) -> tuple[Any, Any, list[str]]:
    """Parse and compile; `_Refused` with MuJoCo's own words.

    In a thread of its own: an exception that MuJoCo does not expect leaves its thread's log handler calling itself, and
    the next warning in that thread would never end.
    """
    done: list[tuple[Any, Any, list[str]] | Exception] = []

    def work() -> None:
        try:
            done.append(_parse_and_compile(text, prepared, ranges))
        except Exception as error:
            done.append(error)

    thread = threading.Thread(target=work, name="kinema-mjcf")
    thread.start()
    thread.join()
    if isinstance(done[0], Exception):
        raise done[0]
    return done[0]


def _parse_and_compile(text: Text, prepared: Prepared, ranges: bool) -> tuple[Any, Any, list[str]]:
    mj = mujoco()
    notes: list[str] = []
    try:
        with _captured(notes):
            if hasattr(mj, "MjVfs"):
                with mj.MjVfs() as memory:
                    for name, data in {**prepared.files, **text.attached}.items():
                        memory[name] = data
                    spec = mj.MjSpec.from_string(text.main, vfs=memory)
                    return spec, _compile(spec, notes, ranges, vfs=memory), notes
            spec = mj.MjSpec.from_string(text.main, include=text.attached, assets=prepared.files)  # early MuJoCo 3
            return spec, _compile(spec, notes, ranges), notes
    except (ValueError, RuntimeError, MemoryError, TypeError, UnicodeError, mj.FatalError) as error:
        raise _Refused(str(error)) from None


def _compile(spec: Any, notes: list[str], ranges: bool, **memory: Any) -> Any:
    mj = mujoco()
    # threads of MuJoCo's own would call back into Python with warnings
    spec.compiler.usethread = False
    if not ranges or _length_range_steps(spec) > MAX_LENGTH_RANGE_STEPS:
        spec.compiler.LRopt.mode = mj.mjtLRMode.mjLRMODE_NONE.value
        if ranges:
            notes.append("finding the length ranges of the muscles would take too long; they are left as given")
    own = {name: getattr(spec.option, name) for name in _ITERATIONS if hasattr(spec.option, name)}
    for name, value in own.items():
        setattr(spec.option, name, min(value, MAX_ITERATIONS))
    model = spec.compile(**memory)
    for name, value in own.items():
        setattr(model.opt, name, value)
    return model


def _length_range_steps(spec: Any) -> float:
    mj = mujoco()
    options = spec.compiler.LRopt
    if options.mode == mj.mjtLRMode.mjLRMODE_NONE.value:
        return 0.0
    everything = options.mode == mj.mjtLRMode.mjLRMODE_ALL.value
    muscles = (mj.mjtGain.mjGAIN_MUSCLE, mj.mjtGain.mjGAIN_USER)
    n_actuators = sum(1 for a in spec.actuators if everything or a.gaintype in muscles)
    return 2 * n_actuators * options.inttotal / max(options.timestep, 1e-9)


@contextmanager
def _captured(notes: list[str]) -> Iterator[None]:
    """MuJoCo's warnings into a list: not to the standard error, and not into a log file in the user's folder."""
    mj = mujoco()
    with _handlers, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        previous = mj.get_mju_user_warning()
        mj.set_mju_user_warning(lambda message: notes.append(str(message)))
        try:
            yield
        finally:
            mj.set_mju_user_warning(previous)
            notes += [str(w.message) for w in caught if issubclass(w.category, UserWarning)]


# -- what it complains about ------------------------------------------------------------------------------------------


def _optional_elements(prepared: Prepared) -> dict[int, XmlElement]:
    """`id` of every element that is, or is in, one that the tree of bodies does not rest on -> that element."""
    found: dict[int, XmlElement] = {}
    for document in prepared.document.all_documents():
        for section in document.root.children:
            if section.tag in _OPTIONAL_SECTIONS:
                found |= {id(part): element for element in section.children for part in element.iterate()}
        found |= {id(e): e for e in document.root.iterate() if e.tag == "attach"}
    return found


def _keyframe(reason: str, prepared: Prepared) -> XmlElement | None:
    """The keyframe that MuJoCo complains about: of these it tells the number or the name, not the line."""
    found = _KEYFRAME.search(reason)
    if found is None:
        return None
    name, number = found.group(1), int(found.group(2))
    sections = (s for part in prepared.document.all_documents() for s in part.root.find_all(mjcf.KEYFRAME))
    keys = [k for section in sections for k in section.find_all(mjcf.KEY) if id(k) not in prepared.removed]
    named = [k for k in keys if name and name.endswith(k.attributes.get("name") or name)]
    return next(iter(named or keys[number:]), None)


def _leave_out(
    element: XmlElement | None,
    reason: str,
    prepared: Prepared,
    optional: dict[int, XmlElement],
    diagnostics: Diagnostics,
) -> None:
    """Report what MuJoCo refuses and go on without it, or give up with a `ReadError`."""
    message = _clean(reason, prepared)
    if element is not None and element.tag == mjcf.MESH:
        asset = prepared.assets.get(id(element))
        if asset is None or asset.usable:
            diagnostics.error("mjcf.unusable-mesh", f"{_called(element)}: {message}", origin=element.origin)
            prepared.replace_mesh(element)
            return
    if element is not None and id(element) in optional and id(optional[id(element)]) not in prepared.removed:
        whole = optional[id(element)]
        diagnostics.error("mjcf.left-out", f"{_called(whole)} is left out: {message}", origin=element.origin)
        prepared.removed.add(id(whole))
        return
    called = f"{_called(element)}: " if element else ""
    raise ReadError(f"{_origin(element, prepared)}: {called}{message}{_first_cause(diagnostics)}")


def _first_cause(diagnostics: Diagnostics) -> str:
    """A file that is missing, which may be all that is wrong: what it would have held is missed elsewhere."""
    missing = next((d for d in diagnostics if d.code in _MISSING_PARTS), None)
    return "" if missing is None else f" (before that, {missing.origin}: {missing.message})"


def _no_length_ranges(reason: str, prepared: Prepared, diagnostics: Diagnostics) -> None:
    diagnostics.error(
        "mjcf.length-range",
        f"the length ranges of the actuators cannot be found and are left as given: {reason}",
        hint="give joint limits, or 'lengthrange' on the actuators",
        origin=Origin(str(prepared.document.file)),
    )


def _called(element: XmlElement) -> str:
    name = element.attributes.get("name")
    if not name:
        return f"<{element.tag}>"
    return f'<{element.tag}> "{name if len(name) <= 60 else name[:57] + "..."}"'


def _clean(reason: str, prepared: Prepared) -> str:
    """MuJoCo's message as one plain sentence, with the names that the model's files use."""
    reason = _PREFIX.sub("", _ELEMENT_LINE.sub("", reason.strip()))
    for virtual, uri in prepared.uris.items():
        reason = reason.replace(virtual, uri)
    reason = " ".join(reason.split())
    if not reason or "unknown exception" in reason:
        return "MuJoCo failed on the model without a reason; it may have run out of memory"
    return reason if len(reason) <= 500 else reason[:497] + "..."


def _origin(element: XmlElement | None, prepared: Prepared) -> Origin:
    return Origin(str(prepared.document.file)) if element is None else element.origin
