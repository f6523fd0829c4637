"""The occurrences of a design, and the contexts that own joints and rigid groups."""

from __future__ import annotations

from typing import Any

from .api import IDENTITY, attribute, items, matrix

SEPARATOR = "+"


class Assembly:
    """Every occurrence of a design by its path, all of them seen from the root component."""

    def __init__(self, design: Any) -> None:
        self.design = design
        self.root = design.rootComponent
        self.occurrences: dict[str, Any] = {o.fullPathName: o for o in items(self.root.allOccurrences)}

    def pose(self, path: str | None) -> list[float]:
        """Where an occurrence is now, in the root component; the root component itself does not move."""
        return matrix(self.occurrences[path].transform2) if path else list(IDENTITY)

    def contexts(self) -> list[Context]:
        """The root component and every occurrence: each owns the joints and groups of its component."""
        nested = [Context(self, path, o.component) for path, o in self.occurrences.items()]
        return [Context(self, "", self.root), *nested]


class Context:
    """A component at one place of the assembly."""

    def __init__(self, assembly: Assembly, path: str, component: Any) -> None:
        self.assembly = assembly
        self.path = path
        self.component = component

    def proxy(self, thing: Any) -> Any:
        """A joint or group of the component as it is at this place; null where the API cannot give it."""
        if not self.path:
            return thing  # what the root component owns is in the root component's frame already
        try:
            return thing.createForAssemblyContext(self.assembly.occurrences[self.path])
        except RuntimeError:
            return None

    def pose(self) -> list[float]:
        """Where the component's frame is."""
        return self.assembly.pose(self.path)

    def path_of(self, occurrence: Any) -> str | None:
        """The path of an occurrence that a joint or group of this component names; None for the root component.

        Null means the component itself. The API may name an occurrence by its path from the root, or, where it gives
        the native object, by the path from the component.
        """
        if occurrence is None:
            return self.path or None
        path = occurrence.fullPathName
        known = self.assembly.occurrences
        if not self.path:
            return path
        if path == self.path or (path.startswith(self.path + SEPARATOR) and path in known):
            return path
        joined = self.path + SEPARATOR + path
        return joined if joined in known else path


def parent_path(occurrence: Any) -> str | None:
    """The path of the occurrence that another one is nested in; None at the top."""
    around = attribute(occurrence, "assemblyContext")
    return around.fullPathName if around is not None else None
