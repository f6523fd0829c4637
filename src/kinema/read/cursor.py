"""Cursor over an XML element that records which attributes and children were accessed.

`collect_unread` preserves all other content verbatim and reports it, so no content of a file is dropped silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, Diagnostics, Origin, XmlElement, float64_array
from kinema.description import Extra


@dataclass(slots=True, eq=False)
class Cursor:
    """Cursor over an XML element that records accessed attributes and children.

    `format` is the prefix of diagnostic codes; problems are reported to `diagnostics`.
    """

    element: XmlElement
    format: str
    diagnostics: Diagnostics
    accessed: set[str] = field(default_factory=set)
    """Accessed attributes as `@name` and accessed child tags as `name`."""

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
        """Child with the given tag, or None; reports an error if there are several and returns the first."""
        matches = self.children(tag)
        if len(matches) > 1:
            matches[1].error("repeated-element", f"<{self.tag}> holds more than one <{tag}>; the first counts")
        return matches[0] if matches else None

    def children(self, *tags: str) -> list[Cursor]:
        """Children with any of the given tags, in document order."""
        self.accessed.update(tags)
        return [Cursor(c, self.format, self.diagnostics) for c in self.element.children if c.tag in tags]

    # -- attributes ---------------------------------------------------------------------------------------------

    def attribute_text(self, attribute: str) -> str | None:
        """An attribute's text, or None."""
        self.accessed.add(f"@{attribute}")
        return self.element.attributes.get(attribute)

    def required_attribute(self, attribute: str) -> str:
        """Text of a mandatory attribute; reports an error and returns an empty string if absent or blank."""
        text = self.attribute_text(attribute)
        if text is None or not text.strip():
            self.error("missing-attribute", f"<{self.tag}> has no {attribute!r}")
            return ""
        return text

    def attribute_floats(self, attribute: str, default: Sequence[float]) -> Array:
        """Attribute parsed as an array of the same length as the default."""
        return self._to_floats(self.attribute_text(attribute), f"{attribute!r} of <{self.tag}>", default)

    # -- text content -------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The text inside the element."""
        return self.element.text

    def text_as_float(self, default: float = 0.0) -> float:
        """Text content parsed as a float; reports an error and returns the default if malformed."""
        value = parse_float(self.text)
        if value is None:
            problem = f"<{self.tag}>: {_abbreviate(self.text)} is not a number"
            self.error("not-a-number", problem, f"{default:g} is assumed")
            return default
        return value

    def text_as_floats(self, default: Sequence[float]) -> Array:
        """Text content parsed as an array of the same length as the default."""
        return self._to_floats(self.text, f"<{self.tag}>", default)

    def child_text(self, tag: str, default: str = "") -> str:
        """Text of a child, or the default if there is no such child."""
        child = self.child(tag)
        return default if child is None else child.text

    def child_flag(self, tag: str, default: bool) -> bool:
        """Text of a child parsed as a Boolean, or the default if there is no such child."""
        child = self.child(tag)
        return default if child is None else child.parse_flag(child.text, default)

    def parse_flag(self, text: str | None, default: bool) -> bool:
        """Parse `true`/`1`/`false`/`0`; reports an error and returns the default for other texts."""
        if text is None:
            return default
        match text.strip().lower():
            case "true" | "1":
                return True
            case "false" | "0":
                return False
        self.error(
            "not-a-flag", f"<{self.tag}>: {_abbreviate(text)} is neither true nor false", f"{default} is assumed"
        )
        return default

    # -- unread content -----------------------------------------------------------------------------------------

    def collect_unread(self, *, without_warning: Sequence[str] = ()) -> list[Extra]:
        """Attributes and children that were never accessed, preserved verbatim.

        Issues a warning for each of them, except for names in `without_warning` and `xmlns` attributes.
        """
        unread: list[Extra] = []
        for name, text in self.element.attributes.items():
            if f"@{name}" not in self.accessed:
                unread.append(Extra(self.format, f"@{name}", text, self.origin))
                if f"@{name}" not in without_warning and not name.startswith("xmlns"):
                    message = f"attribute {name!r} of <{self.tag}> has no meaning here and is kept as it is"
                    self.warning("unknown-attribute", message)
        for element in self.element.children:
            if element.tag not in self.accessed:
                unread.append(Extra(self.format, element.tag, element.verbatim, element.origin))
                if element.tag not in without_warning:
                    message = f"<{element.tag}> in <{self.tag}> has no meaning here and is kept as it is"
                    self.diagnostics.warning(f"{self.format}.unknown-element", message, origin=element.origin)
        return unread

    # -- numbers ------------------------------------------------------------------------------------------------

    def _to_floats(self, text: str | None, label: str, default: Sequence[float]) -> Array:
        """Parse whitespace-separated numbers; reports an error and returns the default on a wrong count or text.

        Commas between the numbers are accepted with a warning.
        """
        if text is None:
            return float64_array(default)
        words = text.split()
        parsed = [parse_float(w) for w in words]
        if any(w.endswith(",") for w in words[:-1]):  # "0,5" is ambiguous and rejected
            parsed = [parse_float(w.removesuffix(",")) for w in words]
            if len(words) == len(default) and None not in parsed:
                self.warning(
                    "commas", f"{label}: {_abbreviate(text)} has commas between its numbers", "put blanks there"
                )
        if len(words) != len(default) or any(p is None for p in parsed):
            problem = f"{label}: {_abbreviate(text)} is not {len(default)} numbers"
            self.error("not-a-number", problem, f"{' '.join(f'{d:g}' for d in default)} is assumed")
            return float64_array(default)
        return np.array(parsed, dtype=np.float64)


def parse_float(text: str) -> float | None:
    """Parse a decimal number independently of the locale; None if malformed. NaN and infinity are accepted."""
    text = text.strip()
    try:
        value = float(text)
    except ValueError:
        return None
    # Python alone accepts underscores and non-ASCII digits
    return None if "_" in text or not text.isascii() else value


def _abbreviate(text: str) -> str:
    text = " ".join(text.split())
    return repr(text if len(text) <= 60 else text[:57] + "...")
