"""The loss report: what a target format cannot say, element by element, for people and for programs."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

from kinema.foundation import NOWHERE, Origin

from .matters import Matter, matter_of


class Action(enum.StrEnum):
    """What was done with something that the format has no word for."""

    DROPPED = "dropped"
    """It is not in the file."""
    APPROXIMATED = "approximated"
    """The file says something close to it."""
    EXTENSION = "extension"
    """It is in the file, in settings that only some readers know; for the others it is not there."""


_MATTERS, _ACTIONS = list(Matter), list(Action)
_WORDS = {
    Matter.MOTION: "that change motion",
    Matter.LOOKS: "that change looks",
    Matter.BOOKKEEPING: "of bookkeeping",
}


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
    only_seen: bool = False
    """Whether it is of a shape that nothing touches and that weighs nothing."""

    @property
    def matter(self) -> Matter:
        """What changes by it: motion, looks, or neither."""
        return matter_of(self.kind, self.what, only_seen=self.only_seen)

    def __str__(self) -> str:
        place = f"{self.origin}: " if str(self.origin) else ""
        how = f": {self.how}" if self.how else ""
        return f'{place}{self.action.value}: {self.kind} "{self.name}": {self.what}{how}'

    def to_json(self) -> dict[str, object]:
        """The loss as plain JSON values."""
        return {
            "action": self.action.value,
            "matter": self.matter.value,
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
    nameless: dict[int, str] = field(default_factory=dict, repr=False, compare=False)
    """While it is made: what elements without a name are called, by their identity."""

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

    def folded(self) -> list[tuple[Loss, list[Loss]]]:
        """Losses that say the same of several elements, together: the first, and all; what matters most comes first."""
        groups: dict[tuple[str, str, str, str], list[Loss]] = {}
        for loss in sorted(self.items, key=lambda x: (_MATTERS.index(x.matter), _ACTIONS.index(x.action))):
            groups.setdefault((loss.action, loss.kind, loss.what, loss.how), []).append(loss)
        return [(members[0], members) for members in groups.values()]

    def summary(self) -> str:
        """One line: what changes motion, then looks, then bookkeeping, and what only some readers know."""
        if not self.items:
            return "nothing lost"
        known_to_all = [x for x in self.items if x.action is not Action.EXTENSION]
        counts = Counter(x.matter for x in known_to_all)
        words = [f"{counts[m]} {_WORDS[m]}" for m in Matter if counts[m]]
        if len(known_to_all) < len(self.items):
            words.append(f"{len(self.items) - len(known_to_all)} in extensions")
        return ", ".join(words)

    def to_json(self) -> dict[str, object]:
        """The report as plain JSON values: counts, then every loss."""
        counts, matters = Counter(x.action for x in self.items), Counter(x.matter for x in self.items)
        return {
            "format": self.format,
            "path": self.path,
            "summary": self.summary(),
            "counts": {action.value: counts[action] for action in Action},
            "matters": {matter.value: matters[matter] for matter in Matter},
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
