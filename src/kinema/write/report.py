"""The loss report: what a target format cannot say, element by element, for people and for programs."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from kinema.foundation import NOWHERE, Origin


class Action(enum.StrEnum):
    """What was done with something that the format has no word for."""

    DROPPED = "dropped"
    """It is not in the file."""
    APPROXIMATED = "approximated"
    """The file says something close to it."""
    EXTENSION = "extension"
    """It is in the file, in settings that only some readers know; for the others it is not there."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that did not survive as it was."""

    action: Action
    kind: str
    """The kind of element: `link`, `joint`, `shape`, ..."""
    name: str
    """The element's name."""
    what: str
    """What of it, in a few words: `pitch`, `the texture`."""
    how: str = ""
    """What became of it, and why."""
    origin: Origin = NOWHERE
    """Where the element stands in the file it was read from."""

    def __str__(self) -> str:
        place = f"{self.origin}: " if str(self.origin) else ""
        how = f": {self.how}" if self.how else ""
        return f'{place}{self.action.value}: {self.kind} "{self.name}": {self.what}{how}'

    def to_json(self) -> dict[str, object]:
        """The loss as plain JSON values."""
        return {
            "action": self.action.value,
            "kind": self.kind,
            "name": self.name,
            "what": self.what,
            "how": self.how,
            "file": self.origin.file or None,
            "line": self.origin.line,
            "path": self.origin.path or None,
        }


@dataclass(slots=True)
class LossReport(Sequence[Loss]):
    """Everything that a file could not say, in the order it was met; empty where nothing was lost."""

    format: str = ""
    """The format that was written."""
    path: str = ""
    """The file that was written."""
    items: list[Loss] = field(default_factory=list)

    def add(self, loss: Loss) -> None:
        """Put a loss on record; the same one is kept once."""
        if loss not in self.items[-8:]:  # repeats come together: a joint's three axes, say
            self.items.append(loss)

    def of(self, action: Action) -> list[Loss]:
        """The losses of one kind."""
        return [x for x in self.items if x.action is action]

    @property
    def dropped(self) -> list[Loss]:
        """What is not in the file at all."""
        return self.of(Action.DROPPED)

    @property
    def approximated(self) -> list[Loss]:
        """What the file says only nearly."""
        return self.of(Action.APPROXIMATED)

    @property
    def extensions(self) -> list[Loss]:
        """What only some readers of the file will understand."""
        return self.of(Action.EXTENSION)

    def to_json(self) -> dict[str, object]:
        """The report as plain JSON values: counts, then every loss."""
        counts = Counter(x.action for x in self.items)
        return {
            "format": self.format,
            "path": self.path,
            "counts": {action.value: counts[action] for action in Action},
            "losses": [x.to_json() for x in self.items],
        }

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Loss]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> Loss: ...
    @overload
    def __getitem__(self, index: slice) -> list[Loss]: ...
    def __getitem__(self, index: int | slice) -> Loss | list[Loss]:
        return self.items[index]
