"""Frame graph of an SDFormat file: scopes of names, `relative_to` and `attached_to` relations, poses.

Every link, joint, frame and model is a frame. Two graphs connect the frames: the pose of a frame is given relative to
another frame (`relative_to`), and a frame is attached to another frame (`attached_to`), ultimately to a link or the
world. Names are looked up in the enclosing model; `a::b` is the frame `b` of the nested model `a`. A merged model has
no scope: its members belong to the scope of the enclosing model, and only its `__model__` is a separate frame.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema.core import Diagnostics, Origin, Pose, unique_name
from kinema.tokens import sdf

from .elements import (
    MODEL_FRAME,
    SCOPE_DELIMITER,
    WORLD_FRAME,
    Element,
    FrameElement,
    JointElement,
    LinkElement,
    ModelElement,
    PoseElement,
    WorldElement,
)

# -- frames and scopes -------------------------------------------------------------------------------------------------

_ROOT_FRAME = "__root__"


class FrameKind(enum.Enum):
    """Kind of object that a frame belongs to."""

    WORLD = "world"
    MODEL = "model"
    LINK = "link"
    JOINT = "joint"
    FRAME = "frame"
    MERGED = "merged model"


@dataclass(slots=True, eq=False)
class SdfFrame:
    """A frame with its relations in the pose and attachment graphs."""

    kind: FrameKind
    name: str
    """Name in its scope; unique among links, and among joints."""
    element: Element
    scope: Scope
    """Scope for references of its element; for a model the enclosing scope."""
    top_level_model: SdfFrame | None = None
    """Enclosing top-level model; None for the world and its direct members."""
    relative_to: SdfFrame | None = None
    """Reference frame of the pose; None for the world."""
    attached_to: SdfFrame | None = None
    placement_frame: SdfFrame | None = None
    """Frame placed by the pose, if it is not the frame itself."""
    inner_scope: Scope | None = None
    """Scope inside of a model."""

    @property
    def path(self) -> str:
        """Name with those of the enclosing nested models, up to the top-level model."""
        return self.scope.prefix + self.name


@dataclass(slots=True, eq=False)
class Scope:
    """Names known inside of a model or world."""

    element: ModelElement | WorldElement
    prefix: str
    """Prefix of member names, relative to the top-level model."""
    parent: Scope | None
    own_frame: SdfFrame = field(init=False)
    """Frame of `__model__`, or the world."""
    names: dict[str, SdfFrame] = field(default_factory=dict)
    links: dict[str, SdfFrame] = field(default_factory=dict)
    joints: dict[str, SdfFrame] = field(default_factory=dict)
    members: list[SdfFrame] = field(default_factory=list)
    """Links, joints, frames and models directly inside, in file order."""
    static: bool = False
    """Whether this model or an enclosing one is static."""

    @property
    def is_world(self) -> bool:
        """Whether this is the scope of a world."""
        return isinstance(self.element, WorldElement)

    def find(self, name: str) -> SdfFrame | None:
        """Frame with a name, also from enclosing scopes in old versions; None if unknown."""
        found = self._find_nested(name)
        if found is None and self.parent is not None and not self.element.version.scopes_are_closed:
            return self.parent.find(name)
        return found

    def _find_nested(self, name: str) -> SdfFrame | None:
        """Frame with a name in this scope or, scoped by `::`, in nested models."""
        if name == MODEL_FRAME and not self.is_world:
            return self.own_frame
        if name in (WORLD_FRAME, _ROOT_FRAME) and self.is_world:
            return self.own_frame
        if name in self.names:
            return self.names[name]
        # names may contain the delimiter in old files: try the longest model name last
        position = name.find(SCOPE_DELIMITER)
        while position > 0:
            model = self.names.get(name[:position])
            if model is not None and model.inner_scope is not None:
                found = model.inner_scope._find_nested(name[position + len(SCOPE_DELIMITER) :])
                if found is not None:
                    return found
            position = name.find(SCOPE_DELIMITER, position + 1)
        return None


# -- frame graph -------------------------------------------------------------------------------------------------------

_FRAME_KINDS: dict[type[Element], FrameKind] = {
    LinkElement: FrameKind.LINK,
    JointElement: FrameKind.JOINT,
    FrameElement: FrameKind.FRAME,
}


class FrameGraph:
    """All frames of a world, or of the models at the root of a file."""

    def __init__(self, world: WorldElement, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.world_scope = Scope(world, "", None)
        self.world = SdfFrame(FrameKind.WORLD, WORLD_FRAME, world, self.world_scope)
        self.world_scope.own_frame = self.world
        self._poses: dict[int, tuple[SdfFrame | None, Pose]] = {}
        self._in_world: dict[int, Pose] = {}
        """id of a top-level model -> pose in the world."""
        self._bodies: dict[int, SdfFrame | None] = {}
        self._add_members(self.world_scope, world, self.world_scope, None)
        for node in self.frames():
            self._connect_frame(node)
        self._break_cycles()

    # -- building -------------------------------------------------------------------------------------------------

    def frames(self) -> Iterator[SdfFrame]:
        """All frames except the world, models before their members."""
        stack = [iter(self.world_scope.members)]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            yield node
            if node.inner_scope is not None and node.kind is FrameKind.MODEL:
                stack.append(iter(node.inner_scope.members))

    def _add_members(
        self, scope: Scope, element: ModelElement | WorldElement, register: Scope, top_level_model: SdfFrame | None
    ) -> None:
        """Add the members of a model or world; those of a merged model are registered in the enclosing scope."""
        for member in element.members:
            if isinstance(member, ModelElement):
                self._add_model(member, scope, register, top_level_model)
            elif isinstance(member, LinkElement) and register.is_world:
                problem = f'link "{member.name}" of a model that is merged into the world has no model to belong to'
                self._error("merged-links", problem, member.origin, "it is left out")
            else:
                kind = _FRAME_KINDS[type(member)]
                self._register(SdfFrame(kind, member.name, member, scope, top_level_model), register)

    def _add_model(self, model: ModelElement, scope: Scope, register: Scope, top_level_model: SdfFrame | None) -> None:
        """Add the frame and scope of a model, and its members."""
        if model.merged:
            self._add_merged(model, scope, register, top_level_model)
            return
        node = SdfFrame(FrameKind.MODEL, model.name, model, scope, top_level_model)
        self._register(node, register)
        top = top_level_model is None
        inside = Scope(model, "" if top else f"{register.prefix}{node.name}{SCOPE_DELIMITER}", register)
        inside.static = model.static or register.static
        inside.own_frame, node.inner_scope = node, inside
        self._add_members(inside, model, inside, node if top else top_level_model)

    def _add_merged(self, model: ModelElement, scope: Scope, register: Scope, top_level_model: SdfFrame | None) -> None:
        """Add a merged model: a frame for its `__model__`, and its members in the enclosing model."""
        proxy = SdfFrame(FrameKind.MERGED, f"_merged__{model.name}{MODEL_FRAME}", model, scope, top_level_model)
        self._register(proxy, register)
        inside = Scope(model, register.prefix, register.parent)
        inside.static = register.static
        inside.names, inside.links, inside.joints = register.names, register.links, register.joints
        inside.members = register.members
        inside.own_frame, proxy.inner_scope = proxy, inside
        self._add_members(inside, model, register, top_level_model)

    def _register(self, node: SdfFrame, scope: Scope) -> None:
        """Register a frame under its name; names of links, and of joints, are made unique."""
        scope.members.append(node)
        same_kind = {FrameKind.LINK: scope.links, FrameKind.JOINT: scope.joints}.get(node.kind, scope.names)
        other = scope.names.get(node.name)
        strict = scope.element.version.names_are_unique_among_siblings
        if node.name in same_kind:
            fresh = unique_name(node.name, set(same_kind) | set(scope.names))
            self._report_duplicate(node, same_kind[node.name], strict or node.kind is not FrameKind.FRAME, fresh)
            node.name = fresh
        elif other is not None and strict:
            self._report_duplicate(node, other, strict)
        if node.kind is FrameKind.LINK and other is not None and node.name == other.name:
            scope.names[node.name] = node  # a name shared by link and joint refers to the link
        scope.names.setdefault(node.name, node)
        same_kind.setdefault(node.name, node)

    def _report_duplicate(self, node: SdfFrame, other: SdfFrame, strict: bool, fresh: str = "") -> None:
        hint = f"the later one is called {fresh!r}" if fresh else "give every link, joint and frame its own name"
        problem = f'{node.kind.value} "{node.name}" has the name of another {other.kind.value}'
        report = self.diagnostics.error if strict else self.diagnostics.warning
        report(f"{sdf.FORMAT}.duplicate-name", problem, hint=hint, origin=node.element.origin)

    def _error(self, code: str, problem: str, origin: Origin, hint: str = "") -> None:
        self.diagnostics.error(f"{sdf.FORMAT}.{code}", problem, hint=hint, origin=origin)

    # -- connecting -----------------------------------------------------------------------------------------------

    def lookup(self, scope: Scope, name: str, what: str, origin: Origin) -> SdfFrame | None:
        """Frame with a name; None with an error if unknown."""
        found = scope.find(name)
        if found is None:
            hint = "a frame is named from inside its own model: a link, joint, frame or nested::frame"
            self._error("unknown-frame", f"{what} names {name!r}, which is no frame there", origin, hint)
        return found

    def _connect_frame(self, node: SdfFrame) -> None:
        """Resolve `relative_to` and `attached_to` of a frame."""
        element, scope = node.element, node.scope
        what = f'{node.kind.value} "{element.name}"'
        relative_to = element.pose.relative_to
        if relative_to:
            node.relative_to = self.lookup(scope, relative_to, f"the pose of {what}", element.pose.origin)
        if isinstance(element, FrameElement):
            if element.attached_to:
                node.attached_to = self.lookup(scope, element.attached_to, what, element.origin)
            node.attached_to = node.attached_to or scope.own_frame
            node.relative_to = node.relative_to or node.attached_to
        elif isinstance(element, JointElement):
            node.attached_to = self._joint_end(scope, element.child)
            node.relative_to = node.relative_to or node.attached_to
        elif isinstance(element, ModelElement):
            self._connect_model(node, element)
        node.relative_to = node.relative_to or scope.own_frame

    def _joint_end(self, scope: Scope, name: str) -> SdfFrame | None:
        """Frame named by a joint, without error if missing (reported by the joint conversion)."""
        if name == WORLD_FRAME:
            return self.world
        return scope.find(name) if name else None

    def _connect_model(self, node: SdfFrame, model: ModelElement) -> None:
        """Resolve placement frame and canonical link of a model."""
        assert node.inner_scope is not None
        if model.placement_frame and model.placement_frame != MODEL_FRAME:
            what = f'the placement frame of model "{model.name}"'
            node.placement_frame = self.lookup(node.inner_scope, model.placement_frame, what, model.origin)
        if model.static and not model.merged:
            node.attached_to = self.world
            return
        if model.canonical_link:
            what = f'the canonical link of model "{model.name}"'
            node.attached_to = self.lookup(node.inner_scope, model.canonical_link, what, model.origin)
        node.attached_to = node.attached_to or self._first_link_frame(model, node.inner_scope)
        if node.attached_to is None:
            hint = "add a link, or make it static"
            self._error("no-links", f'model "{model.name}" has no links', model.origin, hint)
            node.attached_to = self.world

    def _first_link_frame(self, model: ModelElement, inside: Scope) -> SdfFrame | None:
        """First link of a model, or first nested model with a link."""
        elements = {id(m) for m in _direct_members(model)}
        members = [m for m in inside.members if id(m.element) in elements]
        links = [m for m in members if m.kind is FrameKind.LINK]
        models = [m for m in members if m.kind is FrameKind.MODEL and _has_links(m)]
        return next(iter(links + models), None)

    def _break_cycles(self) -> None:
        """Report poses that depend on themselves, and make them relative to the enclosing model."""
        done: set[int] = {id(self.world)}
        for start in self.frames():
            path: list[SdfFrame] = []
            on_path: set[int] = set()
            node: SdfFrame | None = start
            while node is not None and id(node) not in done:
                if id(node) in on_path:
                    what = f'the pose of {node.kind.value} "{node.element.name}" depends on itself'
                    self._error("frame-cycle", what, node.element.origin, "it is read relative to its model")
                    # a model placed by one of its members
                    node.relative_to = node.scope.own_frame if node.scope.own_frame is not node else self.world
                    if self._reaches(node.relative_to, node):
                        node.relative_to = self.world
                    break
                on_path.add(id(node))
                path.append(node)
                node = node.relative_to
            done |= on_path

    @staticmethod
    def _reaches(start: SdfFrame | None, goal: SdfFrame) -> bool:
        seen: set[int] = set()
        while start is not None and id(start) not in seen:
            if start is goal:
                return True
            seen.add(id(start))
            start = start.relative_to
        return False

    # -- queries --------------------------------------------------------------------------------------------------

    def attached_link(self, node: SdfFrame) -> SdfFrame | None:
        """Link to which a frame is attached; None for the world (cached)."""
        path: list[SdfFrame] = []
        seen: set[int] = set()
        current: SdfFrame | None = node
        while current is not None and id(current) not in self._bodies and current.kind is not FrameKind.LINK:
            if id(current) in seen:
                problem = f'{current.kind.value} "{current.element.name}" is attached to itself'
                self._error("frame-cycle", problem, current.element.origin, "it is attached to the world")
                current = None
                break
            seen.add(id(current))
            path.append(current)
            current = None if current.kind is FrameKind.WORLD else current.attached_to
        link = current if current is None or current.kind is FrameKind.LINK else self._bodies[id(current)]
        for passed in path:
            self._bodies[id(passed)] = link
        return link

    def pose_in_world(self, node: SdfFrame) -> Pose:
        """Pose of a frame in the world."""
        anchor, pose = self._pose_in_top_level_model(node)
        path: list[SdfFrame] = []
        while anchor is not None and id(anchor) not in self._in_world:
            path.append(anchor)
            anchor, _ = self._pose_in_top_level_model(anchor.relative_to or self.world)
        here = Pose() if anchor is None else self._in_world[id(anchor)]
        for passed in reversed(path):
            here = here @ self._pose_in_top_level_model(passed.relative_to or self.world)[1] @ self._local_pose(passed)
            self._in_world[id(passed)] = here
        return here @ pose

    def pose_in_model(self, node: SdfFrame, top: SdfFrame) -> Pose:
        """Pose of a frame in the top-level model `top`."""
        anchor, pose = self._pose_in_top_level_model(node)
        return pose if anchor is top else self.pose_in_world(top).inverse() @ self.pose_in_world(node)

    def relative_pose(self, node: SdfFrame, to: SdfFrame) -> Pose:
        """Pose of frame `node` in frame `to`."""
        if node is to:
            return Pose()
        (anchor_a, pose_a), (anchor_b, pose_b) = self._pose_in_top_level_model(node), self._pose_in_top_level_model(to)
        if anchor_a is anchor_b:
            return pose_b.inverse() @ pose_a
        return self.pose_in_world(to).inverse() @ self.pose_in_world(node)

    def resolve_pose(self, pose: PoseElement, scope: Scope, default: SdfFrame, what: str) -> Pose:
        """Pose of an element inside of a link or joint, in the frame of that link or joint."""
        if not pose.relative_to:
            return pose.pose
        base = self.lookup(scope, pose.relative_to, f"the pose of {what}", pose.origin)
        return pose.pose if base is None else self.relative_pose(base, default) @ pose.pose

    def _pose_in_top_level_model(self, node: SdfFrame) -> tuple[SdfFrame | None, Pose]:
        """Anchor and pose: the next top-level model along the chain, or the world (None), and the pose in it."""
        path: list[SdfFrame] = []
        current = node
        while id(current) not in self._poses:
            if current.relative_to is None:
                self._poses[id(current)] = (None, Pose())
            elif current.kind is FrameKind.MODEL and current.top_level_model is None:
                self._poses[id(current)] = (current, Pose())
            else:
                path.append(current)
                current = current.relative_to
        anchor, pose = self._poses[id(current)]
        for passed in reversed(path):
            pose = pose @ self._local_pose(passed)
            self._poses[id(passed)] = (anchor, pose)
        return anchor, pose

    def _local_pose(self, node: SdfFrame) -> Pose:
        """Pose of a frame in its `relative_to` frame, with the placement frame taken into account."""
        raw = node.element.pose.pose
        if node.placement_frame is None:
            return raw
        inside, current = Pose(), node.placement_frame
        while current is not node and current.relative_to is not None:
            inside = self._local_pose(current) @ inside
            current = current.relative_to
        if current is not node:
            node.placement_frame = None
            problem = f'the placement frame of model "{node.element.name}" is placed from outside the model'
            self._error("placement-frame", problem, node.element.origin, "the model's own frame is placed")
            return raw
        return raw @ inside.inverse()


def _direct_members(model: ModelElement) -> Iterator[Element]:
    """Members of a model, including those of merged models."""
    for member in model.members:
        if isinstance(member, ModelElement) and member.merged:
            yield from _direct_members(member)
        else:
            yield member


def _has_links(node: SdfFrame) -> bool:
    inside = node.inner_scope
    return inside is not None and any(
        m.kind is FrameKind.LINK or (m.kind is FrameKind.MODEL and _has_links(m)) for m in inside.members
    )
