"""Bounded JSON parser, and a cursor over a JSON object that records accessed fields.

Fields that were never accessed are preserved and reported.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.core import Array, Diagnostics, Origin, Pose, ReadError
from kinema.description import Extra

from .elements import FORMAT

MAX_VALUES = 1_000_000
"""Maximum number of JSON values in a file; a value in memory is much larger than its text."""
MAX_DEPTH = 50
MAX_ITEMS = 20_000
"""Maximum number of objects in a list."""
MAX_NUMBER = 1e12
"""Maximum magnitude of a number; larger values would overflow in later products."""
_IDENTITY = np.eye(3)
_ORTHONORMAL_TOLERANCE = 1e-6
"""Tolerance of the orthonormality of a rotation matrix: some exporters write seven digits."""


def parse_json(data: bytes, file: str) -> tuple[Any, str]:
    """Parse JSON with bounded size and depth; returns the value and a key repeated within an object, if any.

    Raises `ReadError` on malformed input.
    """
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
        # parsing long integers takes quadratic time, floats linear time
        value = json.loads(
            text,
            parse_int=lambda digits: int(digits) if len(digits) < 18 else float(digits),
            object_pairs_hook=unite,
        )
    except json.JSONDecodeError as error:
        raise ReadError(f"{file}:{error.lineno}: this is not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ReadError(f"{file}: the JSON values are nested too deeply") from None
    if _exceeds_max_depth(value):
        raise ReadError(f"{file}: the JSON values are nested too deeply")
    return value, "".join(repeated)


def _exceeds_max_depth(value: Any) -> bool:
    """Whether values are nested more than `MAX_DEPTH` levels; the limit of the parser depends on the Python version."""
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
    """Cursor over a JSON object that records accessed fields and knows its path in the file."""

    value: dict[str, Any]
    file: str
    path: str
    """Path in the file such as `joints[3]`; empty for the root object."""
    diagnostics: Diagnostics
    length_unit: float = 1.0
    """Unit of length of the file [m]."""
    index_in_list: int = 0
    """Index of the object in its list."""
    accessed: set[str] = field(default_factory=set)
    unread_extras: list[Extra] = field(default_factory=list)
    """Unread fields of nested objects."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Path -> line, if line numbers are known."""

    # -- origins and reports ---------------------------------------------------------------------------------------

    def origin_at(self, *keys: str | int) -> Origin:
        """Origin (file, line, path) of a nested value."""
        path = self.path
        for key in keys:
            path += f"[{key}]" if isinstance(key, int) else f".{key}" if path else key
        return Origin(self.file, self.lines.get(path, self.lines.get(self.path)), path)

    def error(self, code: str, message: str, *keys: str | int, hint: str = "") -> None:
        """Report an error at a nested value."""
        self.diagnostics.error(f"{FORMAT}.{code}", message, hint=hint, origin=self.origin_at(*keys))

    def _report_wrong_type(self, key: str, expected: str) -> None:
        self.error(
            "wrong-type", f"{self.origin_at(key).path} is {_abbreviate(self.value[key])}; {expected} is expected", key
        )

    def get(self, key: str) -> Any:
        """Value of a field; None if absent or null. Marks the field as accessed."""
        self.accessed.add(key)
        return self.value.get(key)

    def report_missing(self, key: str) -> None:
        """Report that a mandatory field is absent."""
        self.error("missing-field", f"{self.path or 'the snapshot'} has no {key!r}", key)

    # -- simple values --------------------------------------------------------------------------------------------

    def text(self, key: str, default: str = "") -> str:
        """Text field; reports an error and returns the default for other types."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self._report_wrong_type(key, "text")
            return default
        # unpaired surrogates are legal JSON but cannot be encoded
        return value.encode("utf-8", "replace").decode()

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """Text field restricted to `choices`; reports an error and returns the default otherwise."""
        value = self.text(key, default)
        if value in choices:
            return value
        expected = ", ".join(choices)
        self.error("unknown-value", f"{self.origin_at(key).path} is {_abbreviate(value)}; it may be: {expected}", key)
        return default

    def flag(self, key: str, default: bool = False) -> bool:
        """Boolean field; reports an error and returns the default for other types."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self._report_wrong_type(key, "true or false")
            return default
        return value

    def optional_number(self, key: str, scale: float = 1.0) -> float | None:
        """Finite number field times `scale`; None if absent, null or not a number."""
        value = self.get(key)
        if value is None:
            return None
        if not _is_number(value):
            self._report_wrong_type(key, "a finite number")
            return None
        return float(value) * scale

    def number(self, key: str, default: float = 0.0, scale: float = 1.0) -> float:
        """Finite number field times `scale`, or the default."""
        value = self.optional_number(key, scale)
        return default if value is None else value

    def optional_index(self, key: str) -> int | None:
        """Non-negative integer field; None with an error if absent or malformed."""
        value = self.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        if value is None:
            self.report_missing(key)
        else:
            self._report_wrong_type(key, "a whole number")
        return None

    def numbers(self, key: str, count: int, scale: float = 1.0) -> Array | None:
        """Field with a list of `count` finite numbers, times `scale`; None if absent, null or malformed."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count:
            self._report_wrong_type(key, f"a list of {count} numbers")
            return None
        if {int, float}.issuperset(map(type, value)):
            array = np.array(value, dtype=np.float64)
            if float(np.abs(array).max()) <= MAX_NUMBER:  # which NaN is not
                return array * scale
        i = next(i for i, item in enumerate(value) if not _is_number(item))
        message = f"{self.origin_at(key, i).path} is {_abbreviate(value[i])}; a finite number is expected"
        self.error("wrong-type", message, key, i)
        return None

    def texts(self, key: str) -> list[str]:
        """Field with a list of texts; empty if absent or malformed."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._report_wrong_type(key, "a list of texts")
            return []
        return [item.encode("utf-8", "replace").decode() for item in value]

    # -- geometry -------------------------------------------------------------------------------------------------

    def pose(self, key: str) -> Pose | None:
        """Field with a rigid 4x4 matrix in row-major order; projected on the nearest rotation if not orthonormal."""
        cells = self.numbers(key, 16)
        if cells is None:
            return None
        matrix = cells.reshape(4, 4)
        rotation, position = matrix[:3, :3].copy(), matrix[:3, 3] * self.length_unit
        is_last_row = cells[12:].tolist() == [0.0, 0.0, 0.0, 1.0]
        if (
            is_last_row
            and float(np.abs(rotation.T @ rotation - _IDENTITY).max()) < 1e-14
            and _is_right_handed(rotation)
        ):
            return Pose(position, rotation)  # bitwise as in the file
        u, _, vt = np.linalg.svd(rotation)
        nearest = u @ np.diag([1.0, 1.0, float(np.sign(np.linalg.det(u @ vt)))]) @ vt
        off = max(float(np.abs(rotation - nearest).max()), float(np.abs(matrix[3] - (0, 0, 0, 1)).max()))
        if off > _ORTHONORMAL_TOLERANCE:
            message = (
                f"{self.origin_at(key).path} is no rigid transform (it is off by {off:.3g}); the nearest one is used"
            )
            hint = "write the 16 numbers row by row: three axes as columns, then the position; 0 0 0 1 last"
            self.error("not-rigid", message, key, hint=hint)
        return Pose(position, nearest)

    # -- objects --------------------------------------------------------------------------------------------------

    def object(self, key: str) -> JsonCursor | None:
        """Cursor over a field that is an object; None if absent, null or malformed."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self._report_wrong_type(key, "an object")
            return None
        inside = JsonCursor(
            value,
            self.file,
            self.origin_at(key).path,
            self.diagnostics,
            self.length_unit,
            unread_extras=self.unread_extras,
        )
        inside.lines = self.lines
        return inside

    def objects(self, key: str) -> list[JsonCursor]:
        """Cursors over a field that is a list of objects; empty if absent."""
        value = self.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self._report_wrong_type(key, "a list of objects")
            return []
        if len(value) > MAX_ITEMS:
            place = self.origin_at(key).path
            raise ReadError(f"{self.file}: {place} has {len(value)} entries; at most {MAX_ITEMS} are read")
        wrong = [i for i, item in enumerate(value) if not isinstance(item, dict)]
        if wrong:
            more = f", and so are {len(wrong) - 1} more" if len(wrong) > 1 else ""
            place = self.origin_at(key, wrong[0]).path
            self.error("wrong-type", f"{place} is {_abbreviate(value[wrong[0]])}, no object{more}", key, wrong[0])
        cursors = [
            JsonCursor(
                item, self.file, self.origin_at(key, i).path, self.diagnostics, self.length_unit, index_in_list=i
            )
            for i, item in enumerate(value)
            if isinstance(item, dict)
        ]
        for cursor in cursors:
            cursor.lines = self.lines
        return cursors

    # -- unread fields -------------------------------------------------------------------------------------------

    def collect_unread(self) -> list[Extra]:
        """Fields that were never accessed, here and in nested objects, preserved verbatim with one warning."""
        unknown = [key for key in self.value if key not in self.accessed]
        if not unknown:
            return self.unread_extras
        names = ", ".join(_abbreviate(key) for key in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        what = f"field {names} has" if len(unknown) == 1 else f"{len(unknown)} fields ({names}) have"
        message = f"{self.path or 'the file'}: {what} no meaning here and {'is' if len(unknown) == 1 else 'are'} kept"
        self.diagnostics.warning(f"{FORMAT}.unknown-field", message, origin=self.origin_at())
        self.unread_extras += [
            Extra(
                FORMAT, _replace_surrogates(key), json.dumps(self.value[key]), self.origin_at(_replace_surrogates(key))
            )
            for key in unknown
        ]
        return self.unread_extras


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


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _abbreviate(value: Any) -> str:
    """Short representation of a value for messages."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = ascii(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
