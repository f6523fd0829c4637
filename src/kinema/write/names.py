"""Names that the target format accepts, with a record of those that had to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kinema.foundation import unique_name


@dataclass(slots=True, eq=False)
class NameTable:
    """The names of one kind of element in a file (links, joints, ...): unique, clean, and stable."""

    clean: Callable[[str], str] = str
    """What the format makes of a name; the identity where it accepts any."""
    given: dict[str, str] = field(default_factory=dict)
    """The description's name -> the name in the file."""
    taken: set[str] = field(default_factory=set)

    def add(self, name: str) -> str:
        """The file's name for a new element."""
        written = unique_name(self.clean(name) or "_", self.taken)
        self.given.setdefault(name, written)
        return written

    def __getitem__(self, name: str) -> str:
        """The file's name for an element that was added."""
        return self.given[name]

    def __contains__(self, name: str) -> bool:
        return name in self.given

    @property
    def changed(self) -> dict[str, str]:
        """The names that are not what they were: for the loss report."""
        return {name: written for name, written in self.given.items() if name != written}
