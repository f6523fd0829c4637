"""Finds the parts that a person names."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from kinema.foundation import Diagnostics, Origin
from kinema.read.cad.elements import OccurrenceElement
from kinema.read.cad.schema import ROOT

_MANGLED = str.maketrans(" .()", "____")
"""What the CAD kernel's reader makes of names."""


@dataclass(slots=True, eq=False)
class PartNames:
    """The parts of an assembly by their paths and names."""

    parts: Sequence[OccurrenceElement]
    diagnostics: Diagnostics

    def find(self, name: str, place: Origin, what: str) -> OccurrenceElement | None:
        """The one part of that path or name; None, with an error, where there is none or more than one."""
        plain = name.translate(_MANGLED)
        found = [p for p in self.parts if p.path.translate(_MANGLED) == plain]
        found = found or [p for p in self.parts if p.name.translate(_MANGLED) == plain]
        if len(found) == 1:
            return found[0]
        if found:
            paths = ", ".join(f'"{p.path}"' for p in found[:5]) + (", ..." if len(found) > 5 else "")
            message = f"{what}: {name!r:.80} is the name of {len(found)} parts; say which: {paths}"
            self.diagnostics.error("step.ambiguous-part", message, origin=place)
            return None
        near = difflib.get_close_matches(name, [p.name for p in self.parts], 3, 0.5)
        hint = f"did you mean: {', '.join(near)}" if near else "`kinema info` without the joints' file lists the parts"
        self.diagnostics.error("step.unknown-part", f"{what}: there is no part {name!r:.80}", hint=hint, origin=place)
        return None

    def path_of(self, name: str, place: Origin, what: str) -> str | None:
        """The path of a part; that of the root for no name."""
        if name == ROOT:
            return ROOT
        part = self.find(name, place, what)
        return None if part is None else part.path
