"""Reading an element so that nothing is lost silently.

A `Cursor` notes which attributes and children were asked for. `finish` keeps the rest verbatim and says so: what a
reader does not know is never dropped without a word, by construction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Extra
from kinema.foundation import Array, Diagnostics, Origin, vector

from .xml_text import XmlElement


@dataclass(slots=True, eq=False)
class Cursor:
    """An element being read, the format it belongs to (the prefix of diagnostic codes), and where to report."""

    element: XmlElement
    format: str
    diagnostics: Diagnostics
    seen: set[str] = field(default_factory=set)
    """Attributes as `@name` and children as `name` that were asked for."""

    @property
    def origin(self) -> Origin:
        """File and line of the element."""
        return self.element.origin

    @property
    def tag(self) -> str:
        """The element's tag."""
        return self.element.tag

    def error(self, code: str, message: str, hint: str = "") -> None:
        """Report an error at this element."""
        self.diagnostics.error(f"{self.format}.{code}", message, hint=hint, origin=self.origin)

    def warning(self, code: str, message: str, hint: str = "") -> None:
        """Report a warning at this element."""
        self.diagnostics.warning(f"{self.format}.{code}", message, hint=hint, origin=self.origin)

    def note(self, code: str, message: str, hint: str = "") -> None:
        """Report a note at this element."""
        self.diagnostics.note(f"{self.format}.{code}", message, hint=hint, origin=self.origin)

    # -- children -----------------------------------------------------------------------------------------------

    def child(self, tag: str) -> Cursor | None:
        """The one child with that tag; more than one is an error, and the first counts."""
        found = self.children(tag)
        if len(found) > 1:
            found[1].error("repeated-element", f"<{self.tag}> holds more than one <{tag}>; the first counts")
        return found[0] if found else None

    def children(self, *tags: str) -> list[Cursor]:
        """The children with any of those tags, in file order."""
        self.seen.update(tags)
        return [Cursor(c, self.format, self.diagnostics) for c in self.element.children if c.tag in tags]

    # -- attributes ---------------------------------------------------------------------------------------------

    def text_of(self, attribute: str) -> str | None:
        """An attribute's text, or None."""
        self.seen.add(f"@{attribute}")
        return self.element.attributes.get(attribute)

    def required(self, attribute: str) -> str:
        """An attribute that must be there; empty, and an error, if it is not."""
        text = self.text_of(attribute)
        if text is None or not text.strip():
            self.error("missing-attribute", f"<{self.tag}> has no {attribute!r}")
            return ""
        return text

    def number(self, attribute: str, default: float = 0.0) -> float:
        """An attribute as a number."""
        return self._number(self.text_of(attribute), f"{attribute!r} of <{self.tag}>", default)

    def numbers(self, attribute: str, default: Sequence[float]) -> Array:
        """An attribute as as many numbers as the default has."""
        return self._numbers(self.text_of(attribute), f"{attribute!r} of <{self.tag}>", default)

    # -- the element's own text ---------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text inside the element."""
        return self.element.text

    def value(self, default: float = 0.0) -> float:
        """The element's text as a number."""
        return self._number(self.text, f"<{self.tag}>", default)

    def values(self, default: Sequence[float]) -> Array:
        """The element's text as as many numbers as the default has."""
        return self._numbers(self.text, f"<{self.tag}>", default)

    def child_value(self, tag: str, default: float) -> float:
        """The text of a child as a number, or the default where there is no such child."""
        child = self.child(tag)
        return default if child is None else child.value(default)

    def child_text(self, tag: str, default: str = "") -> str:
        """The text of a child, or the default."""
        child = self.child(tag)
        return default if child is None else child.text

    def child_flag(self, tag: str, default: bool) -> bool:
        """The text of a child as true or false."""
        child = self.child(tag)
        return default if child is None else child.flag(child.text, default)

    def flag(self, text: str | None, default: bool) -> bool:
        """A text as true or false."""
        if text is None:
            return default
        match text.strip().lower():
            case "true" | "1":
                return True
            case "false" | "0":
                return False
        self.error("not-a-flag", f"<{self.tag}>: {_short(text)} is neither true nor false", f"{default} is assumed")
        return default

    # -- what was not asked for ---------------------------------------------------------------------------------

    def finish(self, *, quiet: Sequence[str] = ()) -> list[Extra]:
        """Everything that was not asked for, kept verbatim; a warning for each that is not in `quiet`."""
        kept: list[Extra] = []
        for name, text in self.element.attributes.items():
            if f"@{name}" not in self.seen:
                kept.append(Extra(self.format, f"@{name}", text, self.origin))
                if f"@{name}" not in quiet and not name.startswith("xmlns"):
                    message = f"attribute {name!r} of <{self.tag}> has no meaning here and is kept as it is"
                    self.warning("unknown-attribute", message)
        for element in self.element.children:
            if element.tag not in self.seen:
                kept.append(Extra(self.format, element.tag, element.verbatim, element.origin))
                if element.tag not in quiet:
                    message = f"<{element.tag}> in <{self.tag}> has no meaning here and is kept as it is"
                    self.diagnostics.warning(f"{self.format}.unknown-element", message, origin=element.origin)
        return kept

    # -- numbers ------------------------------------------------------------------------------------------------

    def _number(self, text: str | None, what: str, default: float) -> float:
        if text is None:
            return default
        value = parse_float(text)
        if value is None:
            self.error("not-a-number", f"{what}: {_short(text)} is not a number", f"{default:g} is assumed")
            return default
        return value

    def _numbers(self, text: str | None, what: str, default: Sequence[float]) -> Array:
        if text is None:
            return vector(default)
        words = text.split()
        parsed = [parse_float(w) for w in words]
        if any(w.endswith(",") for w in words[:-1]):  # never "0,5": that may be half, or nothing and five
            parsed = [parse_float(w.removesuffix(",")) for w in words]
            if len(words) == len(default) and None not in parsed:
                self.warning("commas", f"{what}: {_short(text)} has commas between its numbers", "put blanks there")
        if len(words) != len(default) or any(p is None for p in parsed):
            problem = f"{what}: {_short(text)} is not {len(default)} numbers"
            self.error("not-a-number", problem, f"{' '.join(f'{d:g}' for d in default)} is assumed")
            return vector(default)
        return np.array(parsed, dtype=np.float64)


def parse_float(text: str) -> float | None:
    """A decimal number, independent of the locale; None where the text is no number. NaN and infinity are numbers."""
    text = text.strip()
    try:
        value = float(text)
    except ValueError:
        return None
    # Python alone accepts underscores and non-ASCII digits
    return None if "_" in text or not text.isascii() else value


def _short(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else text[:57] + "...")
