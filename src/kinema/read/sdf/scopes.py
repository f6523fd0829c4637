"""Frames and the scopes their names are known in."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from .elements import MODEL_FRAME, SCOPE, WORLD, Element, ModelElement, WorldElement

_ROOT = "__root__"


class FrameKind(enum.Enum):
    """What a frame is the frame of."""

    WORLD = "world"
    MODEL = "model"
    LINK = "link"
    JOINT = "joint"
    FRAME = "frame"
    MERGED = "merged model"


@dataclass(slots=True, eq=False)
class FrameNode:
    """A frame with its place in both graphs."""

    kind: FrameKind
    name: str
    """As it is called in its scope; unique among links, and among joints."""
    element: Element
    scope: Scope
    """Where references made by its element are looked up; for a model the scope around it."""
    home: FrameNode | None = None
    """The top-level model it belongs to; None for the world and what stands in it directly."""
    base: FrameNode | None = None
    """What its pose is relative to; None for the world."""
    attached: FrameNode | None = None
    placement: FrameNode | None = None
    """The frame that the pose places, where it is another one than the frame itself."""
    inside: Scope | None = None
    """What is inside a model."""

    @property
    def path(self) -> str:
        """Its name with those of the nested models around it, up to the top-level model."""
        return self.scope.prefix + self.name


@dataclass(slots=True, eq=False)
class Scope:
    """The names known inside a model or world."""

    element: ModelElement | WorldElement
    prefix: str
    """Before the names of its members, seen from the top-level model."""
    around: Scope | None
    own: FrameNode = field(init=False)
    """What `__model__` stands for, or the world."""
    names: dict[str, FrameNode] = field(default_factory=dict)
    links: dict[str, FrameNode] = field(default_factory=dict)
    joints: dict[str, FrameNode] = field(default_factory=dict)
    members: list[FrameNode] = field(default_factory=list)
    """Every link, joint, frame and model directly inside, in the order of the file."""
    static: bool = False
    """Whether this model or one around it is static."""

    @property
    def is_world(self) -> bool:
        """Whether it is a world's scope."""
        return isinstance(self.element, WorldElement)

    def find(self, name: str) -> FrameNode | None:
        """The frame a name stands for here; None if there is none."""
        found = self._find_inside(name)
        if found is None and self.around is not None and not self.element.version.scopes_are_closed:
            return self.around.find(name)
        return found

    def _find_inside(self, name: str) -> FrameNode | None:
        if name == MODEL_FRAME and not self.is_world:
            return self.own
        if name in (WORLD, _ROOT) and self.is_world:
            return self.own
        if name in self.names:
            return self.names[name]
        # a name may itself hold the separator in old files: try the longest model name last
        position = name.find(SCOPE)
        while position > 0:
            model = self.names.get(name[:position])
            if model is not None and model.inside is not None:
                found = model.inside._find_inside(name[position + len(SCOPE) :])
                if found is not None:
                    return found
            position = name.find(SCOPE, position + 1)
        return None
