"""From bytes to JSON values, with bounds; and reading an object so that nothing is lost silently."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import Extra
from kinema.foundation import Array, Diagnostics, Origin, Pose, ReadError

from .schema import FORMAT

MAX_VALUES = 1_000_000
"""JSON values in one file; a value in memory is far larger than its text."""
MAX_DEPTH = 50
MAX_ITEMS = 20_000
"""Objects in one list."""
MAX_NUMBER = 1e12
"""Anything larger, in whatever unit, is no measure of a machine, and would overflow when squared a few times."""
_UNIT = np.eye(3)
_RIGID = 1e-6
"""How far a rotation matrix may be from orthonormal: some exporters write seven digits."""


def parse_json(data: bytes, file: str) -> tuple[Any, str]:
    """The JSON value in a file and, if there is one, a key that an object has twice; or a `ReadError`."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MAX_VALUES:
        raise ReadError(f"{file}: the file has more than {MAX_VALUES} JSON values")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"{file}: the file is not UTF-8 text (byte {error.start})") from None
    if not text.strip():
        raise ReadError(f"{file}: the file is empty")
    repeated: list[str] = []

    def unite(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        united = dict(pairs)
        if len(united) < len(pairs) and not repeated:
            repeated.append(next(k for k, n in Counter(k for k, _ in pairs).items() if n > 1))
        return united

    try:
        # digits without end are quadratic work for an int, linear for a float, which is all that is needed
        value = json.loads(
            text,
            parse_int=lambda digits: int(digits) if len(digits) < 18 else float(digits),
            object_pairs_hook=unite,
        )
    except json.JSONDecodeError as error:
        raise ReadError(f"{file}:{error.lineno}: this is not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ReadError(f"{file}: the JSON values are nested too deeply") from None
    if _is_deep(value):
        raise ReadError(f"{file}: the JSON values are nested too deeply")
    return value, "".join(repeated)


def _is_deep(value: Any) -> bool:
    """Whether values are nested more than `MAX_DEPTH` levels; how deep the parser itself goes depends on the Python."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list)
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
        if not level:
            return False
    return True


@dataclass(slots=True, eq=False)
class JsonCursor:
    """An object being read; it knows its place and notes which fields were asked for."""

    value: dict[str, Any]
    file: str
    path: str
    """Where in the file it stands, such as `joints[3]`; empty for the whole file."""
    diagnostics: Diagnostics
    scale: float = 1.0
    """Metres in the file's unit of length."""
    number_in_list: int = 0
    """Its index, where it stands in a list."""
    seen: set[str] = field(default_factory=set)
    kept: list[Extra] = field(default_factory=list)
    """What was not asked for in the objects inside this one."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Path -> line, where the text's lines are known."""

    # -- places and reports ---------------------------------------------------------------------------------------

    def place(self, *keys: str | int) -> Origin:
        """The place of something inside this object."""
        path = self.path
        for key in keys:
            path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
        return Origin(self.file, self.lines.get(path, self.lines.get(self.path)), path)

    def error(self, code: str, message: str, *keys: str | int, hint: str = "") -> None:
        """Report an error at a place inside this object."""
        self.diagnostics.error(f"{FORMAT}.{code}", message, hint=hint, origin=self.place(*keys))

    def _wrong(self, key: str, expected: str) -> None:
        self.error("wrong-type", f"{self.place(key).path} is {_short(self.value[key])}; {expected} is expected", key)

    def get(self, key: str) -> Any:
        """A field's value; None where it is absent or null."""
        self.seen.add(key)
        return self.value.get(key)

    def missing(self, key: str) -> None:
        """Report that a field which must be there is not."""
        self.error("missing-field", f"{self.path or 'the snapshot'} has no {key!r}", key)

    # -- simple values --------------------------------------------------------------------------------------------

    def text(self, key: str, default: str = "") -> str:
        """A field's text."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self._wrong(key, "text")
            return default
        # half a surrogate pair is legal JSON, but no text that could be written anywhere
        return value.encode("utf-8", "replace").decode()

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """A field's text, one of a few."""
        value = self.text(key, default)
        if value in choices:
            return value
        expected = ", ".join(choices)
        self.error("unknown-value", f"{self.place(key).path} is {_short(value)}; it may be: {expected}", key)
        return default

    def flag(self, key: str, default: bool = False) -> bool:
        """A field that is true or false."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self._wrong(key, "true or false")
            return default
        return value

    def optional_number(self, key: str, scale: float = 1.0) -> float | None:
        """A field's number times a scale; None where it is absent, null or no number."""
        value = self.get(key)
        if value is None:
            return None
        if not _is_number(value):
            self._wrong(key, "a finite number")
            return None
        return float(value) * scale

    def number(self, key: str, default: float = 0.0, scale: float = 1.0) -> float:
        """A field's number times a scale."""
        value = self.optional_number(key, scale)
        return default if value is None else value

    def index(self, key: str) -> int | None:
        """A field that is a whole number, zero or more."""
        value = self.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        if value is None:
            self.missing(key)
        else:
            self._wrong(key, "a whole number")
        return None

    def numbers(self, key: str, count: int, scale: float = 1.0) -> Array | None:
        """A field that is a list of so many numbers, times a scale; None where it is absent, null or something else."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count:
            self._wrong(key, f"a list of {count} numbers")
            return None
        if {int, float}.issuperset(map(type, value)):
            array = np.array(value, dtype=np.float64)
            if float(np.abs(array).max()) <= MAX_NUMBER:  # which NaN is not
                return array * scale
        i = next(i for i, item in enumerate(value) if not _is_number(item))
        message = f"{self.place(key, i).path} is {_short(value[i])}; a finite number is expected"
        self.error("wrong-type", message, key, i)
        return None

    def texts(self, key: str) -> list[str]:
        """A field that is a list of texts."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._wrong(key, "a list of texts")
            return []
        return [item.encode("utf-8", "replace").decode() for item in value]

    # -- geometry -------------------------------------------------------------------------------------------------

    def pose(self, key: str) -> Pose | None:
        """A field that is a rigid 4x4 matrix, row by row; the nearest rotation where it is not quite one."""
        cells = self.numbers(key, 16)
        if cells is None:
            return None
        matrix = cells.reshape(4, 4)
        rotation, position = matrix[:3, :3].copy(), matrix[:3, 3] * self.scale
        is_last_row = cells[12:].tolist() == [0.0, 0.0, 0.0, 1.0]
        if is_last_row and float(np.abs(rotation.T @ rotation - _UNIT).max()) < 1e-14 and _is_right_handed(rotation):
            return Pose(position, rotation)  # to the last digit as it stands there
        u, _, vt = np.linalg.svd(rotation)
        nearest = u @ np.diag([1.0, 1.0, float(np.sign(np.linalg.det(u @ vt)))]) @ vt
        off = max(float(np.abs(rotation - nearest).max()), float(np.abs(matrix[3] - (0, 0, 0, 1)).max()))
        if off > _RIGID:
            message = f"{self.place(key).path} is no rigid transform (it is off by {off:.3g}); the nearest one is used"
            hint = "write the 16 numbers row by row: three axes as columns, then the position; 0 0 0 1 last"
            self.error("not-rigid", message, key, hint=hint)
        return Pose(position, nearest)

    # -- objects --------------------------------------------------------------------------------------------------

    def object(self, key: str) -> JsonCursor | None:
        """A field that is an object; None where it is absent, null or something else."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._wrong(key, "an object")
            return None
        inside = JsonCursor(value, self.file, self.place(key).path, self.diagnostics, self.scale, kept=self.kept)
        inside.lines = self.lines
        return inside

    def objects(self, key: str) -> list[JsonCursor]:
        """A field that is a list of objects; empty where it is absent."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self._wrong(key, "a list of objects")
            return []
        if len(value) > MAX_ITEMS:
            place = self.place(key).path
            raise ReadError(f"{self.file}: {place} has {len(value)} entries; at most {MAX_ITEMS} are read")
        wrong = [i for i, item in enumerate(value) if not isinstance(item, dict)]
        if wrong:
            more = f", and so are {len(wrong) - 1} more" if len(wrong) > 1 else ""
            place = self.place(key, wrong[0]).path
            self.error("wrong-type", f"{place} is {_short(value[wrong[0]])}, no object{more}", key, wrong[0])
        cursors = [
            JsonCursor(item, self.file, self.place(key, i).path, self.diagnostics, self.scale, number_in_list=i)
            for i, item in enumerate(value)
            if isinstance(item, dict)
        ]
        for cursor in cursors:
            cursor.lines = self.lines
        return cursors

    # -- what was not asked for -----------------------------------------------------------------------------------

    def finish(self) -> list[Extra]:
        """Every field that was not asked for, here and in the objects inside, kept verbatim, with one warning."""
        unknown = [key for key in self.value if key not in self.seen]
        if not unknown:
            return self.kept
        names = ", ".join(_short(key) for key in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        what = f"field {names} has" if len(unknown) == 1 else f"{len(unknown)} fields ({names}) have"
        message = f"{self.path or 'the file'}: {what} no meaning here and {'is' if len(unknown) == 1 else 'are'} kept"
        self.diagnostics.warning(f"{FORMAT}.unknown-field", message, origin=self.place())
        self.kept += [
            Extra(FORMAT, _plain(key), json.dumps(self.value[key]), self.place(_plain(key))) for key in unknown
        ]
        return self.kept


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) <= MAX_NUMBER
    )


def _is_right_handed(rotation: Array) -> bool:
    (a, b, c), (d, e, f), (g, h, i) = rotation.tolist()
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) > 0


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _short(value: Any) -> str:
    """A value in few words, for messages."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
