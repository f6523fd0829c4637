"""C interface of a compiled library: constants, structs, tables of names and functions, as data.

The headers for C and C++, the Python loader and the documentation of a library are written from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from kinema.core import to_identifier, unique_name

# fmt: off
RESERVED_WORDS = frozenset({
    "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const",
    "continue", "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false",
    "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "not",
    "operator", "or", "private", "protected", "public", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "std", "struct", "switch", "template", "this", "throw", "true", "try", "typedef",
    "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while", "xor",
})
# fmt: on
"""Keywords of C and C++ and a namespace of C++, which cannot be names of libraries."""


@dataclass(frozen=True, slots=True)
class Field:
    """Member of a struct, or array parameter of a function: scalars of the library's precision."""

    name: str
    shape: tuple[int, ...]
    comment: str
    """Meaning and unit."""
    source: str = ""
    """Name of the array of the engine that the member holds."""

    @property
    def size(self) -> int:
        """Number of scalars."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Struct:
    """Struct of scalars of the library's precision, without padding."""

    name: str
    """Name without the prefix of the library."""
    fields: Sequence[Field]
    comment: str

    @property
    def size(self) -> int:
        """Number of scalars."""
        return sum(member.size for member in self.fields)


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a function: pointer to a struct, array of scalars, or a 32-bit integer."""

    name: str
    kind: str
    """`array`, `int`, or the name of a struct without the prefix of the library."""
    shape: tuple[int, ...] = ()
    is_output: bool = False
    is_input: bool = True


@dataclass(frozen=True, slots=True)
class Function:
    """Exported function; functions return nothing."""

    name: str
    """Name without the prefix of the library."""
    parameters: Sequence[Parameter]
    comment: str

    @property
    def takes_arrays_only(self) -> bool:
        """Whether all parameters are arrays and integers, so that the function needs no struct."""
        return all(parameter.kind in ("array", "int") for parameter in self.parameters)


@dataclass(frozen=True, slots=True)
class NameTable:
    """Names of links, joints, ...: exported as an array of characters, and as an enumeration of indices."""

    name: str
    """Kind of the objects in the singular, such as `link`."""
    names: Sequence[str]
    identifiers: Sequence[str]
    """Unique C identifiers for the names."""

    @classmethod
    def from_names(cls, name: str, names: Iterable[str]) -> NameTable:
        """Table with identifiers made from the names."""
        texts, taken = list(names), set[str]()
        identifiers = []
        for text in texts:
            identifiers.append(unique_name(to_identifier(text).upper(), taken))
            taken.add(identifiers[-1])
        return cls(name, texts, identifiers)

    @property
    def width(self) -> int:
        """Bytes of each entry of the array of characters, with the final zero."""
        return max((len(name.encode()) for name in self.names), default=0) + 1

    @property
    def characters(self) -> np.ndarray:
        """Names as UTF-8, padded with zeros, (n, width)."""
        rows = [name.encode().ljust(self.width, b"\0") for name in self.names]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), self.width)


@dataclass(frozen=True, slots=True)
class JointRange:
    """Coordinates and degrees of freedom of a joint."""

    name: str
    kind: str
    link: str
    q_start: int
    q_end: int
    v_start: int
    v_end: int
    limits: Sequence[tuple[float, float]] = ()
    """Lower and upper limit of each degree of freedom [m, rad]; infinite without limit."""


@dataclass(slots=True, eq=False)
class Interface:
    """Everything that headers and loaders of a library are written from."""

    name: str
    precision: str
    constants: dict[str, tuple[int | float, str]] = field(default_factory=dict)
    """Name of a constant -> value and comment."""
    structs: list[Struct] = field(default_factory=list)
    name_tables: list[NameTable] = field(default_factory=list)
    tables: list[tuple[Field, np.ndarray]] = field(default_factory=list)
    """Exported arrays of scalars, such as joint limits, and their values."""
    joints: list[JointRange] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    stack_bytes: dict[str, int] = field(default_factory=dict)
    """Function -> upper bound of the stack that it needs [bytes]."""
    notes: list[str] = field(default_factory=list)
    """Paragraphs at the head of the header: limits, iterations, memory."""

    @property
    def scalar(self) -> str:
        """C type of a scalar."""
        return "float" if self.precision == "single" else "double"

    @property
    def scalar_bytes(self) -> int:
        """Bytes of a scalar."""
        return 4 if self.precision == "single" else 8

    @property
    def prefix(self) -> str:
        """Prefix of macros and enumerators."""
        return self.name.upper()

    def struct(self, name: str) -> Struct:
        """Struct by its name without prefix."""
        return next(struct for struct in self.structs if struct.name == name)

    @property
    def has_simulation(self) -> bool:
        """Whether the library has the function `step`."""
        return any(function.name == "step" for function in self.functions)

    @property
    def symbols(self) -> list[str]:
        """Exported symbols: functions and constants."""
        names = [function.name for function in self.functions]
        names += [f"{table.name}_names" for table in self.name_tables if table.names]
        names += [table.name for table, _ in self.tables if table.size]
        names += [f"initial_{struct.name}" for struct in self.structs if struct.name in ("state", "control")]
        return [f"{self.name}_{name}" for name in names]
