"""Names in the file: unique among their kind, and written only where the description's file or a reference asks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kinema.description import SCOPE, Assembly, Node, Robot
from kinema.foundation import unique_name
from kinema.words import mjcf

from ..text import Element

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ufffe\uffff\ud800-\udfff]")
_RESERVED = {mjcf.BODY: {"world"}}


@dataclass(slots=True, eq=False)
class Entry:
    """A named thing of the file."""

    kind: str
    node: Node
    home: Assembly
    element: Element | None = None
    text: str = ""
    """Its name in the file; empty as long as it needs none."""
    scope: str = ""
    """What to put before its name, which others have too."""


@dataclass(slots=True, eq=False)
class Names:
    """The names of everything in the file, by kind: `body`, `geom`, `site`, ..."""

    several_robots: bool = False
    taken: dict[str, set[str]] = field(default_factory=dict)
    by_node: dict[tuple[str, int], Entry] = field(default_factory=dict)
    by_name: dict[tuple[str, str], list[Entry]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    def new(self, kind: str, wanted: str, home: Assembly | None = None) -> str:
        """A name that is free; where it is not, the robot's goes before it."""
        taken = self.taken.setdefault(kind, set(_RESERVED.get(kind, ())))
        name = clean(wanted) or kind
        if name in taken and self.several_robots and isinstance(home, Robot) and home.name:
            name = f"{clean(home.name)}_{name}"
        return unique_name(name, taken)

    def add(self, kind: str, node: Node, home: Assembly, *, shown: bool, scope: str = "") -> Entry:
        """Put a node on the list; `shown` where it is to have its name in any case."""
        entry = Entry(kind, node, home, scope=scope)
        self.by_node[kind, id(node)] = entry
        self.by_name.setdefault((kind, node.name), []).append(entry)
        self.entries.append(entry)
        if shown:
            self._named(entry)
        return entry

    def of(self, kind: str, node: Node) -> str:
        """The name in the file of a node that something refers to."""
        return self._named(self.by_node[kind, id(node)])

    def find(self, kind: str, name: str, home: Assembly) -> Entry | None:
        """Whom a name means, to something that belongs to a robot or to the world."""
        found = self.by_name.get((kind, name), [])
        own = [e for e in found if e.home is home]
        if own or found:
            return (own or found)[0]
        robot, _, rest = name.partition(SCOPE)
        return next((e for e in self.by_name.get((kind, rest), []) if rest and e.home.name == robot), None)

    def refer(self, kind: str, name: str, home: Assembly) -> str | None:
        """The name in the file of what is called so in the description; None where there is no such thing."""
        entry = self.find(kind, name, home)
        return None if entry is None else self._named(entry)

    def _named(self, entry: Entry) -> str:
        if not entry.text:
            wanted = f"{entry.scope}_{entry.node.name}" if entry.scope else entry.node.name
            entry.text = self.new(entry.kind, wanted, entry.home)
        return entry.text

    def put(self) -> None:
        """Write the names into the elements, first of all attributes."""
        for entry in self.entries:
            if entry.element is not None and entry.text:
                entry.element.attributes = {"name": entry.text, **entry.element.attributes}

    def changed(self) -> list[Entry]:
        """Those that are not called in the file as they were."""
        return [e for e in self.entries if e.text and e.text != e.node.name]


def clean(name: str) -> str:
    """A name that XML can hold; MuJoCo takes any other character."""
    return _CONTROL.sub("_", name).strip()
