"""The frames of a file: names, scopes, what each frame is relative to, and what body it is attached to.

Every link, joint, frame and model is a frame. Two graphs connect them: the pose of a frame is given *relative to*
another, and a frame is *attached to* another, in the end to a link or to the world. Names are looked up in the model
around; `a::b` is the frame `b` of the nested model `a`. A merged model has no scope of its own: its members are known
in the model around it, and only its `__model__` is a frame of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from kinema.foundation import Diagnostics, Origin, Pose, unique_name
from kinema.words import sdf

from .elements import (
    MODEL_FRAME,
    SCOPE,
    WORLD,
    Element,
    FrameElement,
    JointElement,
    LinkElement,
    ModelElement,
    PoseElement,
    WorldElement,
)
from .scopes import FrameKind, FrameNode, Scope

_KINDS: dict[type[Element], FrameKind] = {
    LinkElement: FrameKind.LINK,
    JointElement: FrameKind.JOINT,
    FrameElement: FrameKind.FRAME,
}


class FrameGraph:
    """All frames of one world, or of the models at the root of a file."""

    def __init__(self, world: WorldElement, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.world_scope = Scope(world, "", None)
        self.world = FrameNode(FrameKind.WORLD, WORLD, world, self.world_scope)
        self.world_scope.own = self.world
        self._poses: dict[int, tuple[FrameNode | None, Pose]] = {}
        self._in_world: dict[int, Pose] = {}
        """Of top-level models."""
        self._bodies: dict[int, FrameNode | None] = {}
        self._fill(self.world_scope, world, self.world_scope, None)
        for node in self.nodes():
            self._connect(node)
        self._break_cycles()

    # -- building -------------------------------------------------------------------------------------------------

    def nodes(self) -> Iterator[FrameNode]:
        """Every frame but the world, models before what is inside."""
        stack = [iter(self.world_scope.members)]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            yield node
            if node.inside is not None and node.kind is FrameKind.MODEL:
                stack.append(iter(node.inside.members))

    def _fill(
        self, scope: Scope, element: ModelElement | WorldElement, register: Scope, home: FrameNode | None
    ) -> None:
        """Add the members of a model or world; those of a merged model are registered in the scope around."""
        for member in element.members:
            if isinstance(member, ModelElement):
                self._add_model(member, scope, register, home)
            elif isinstance(member, LinkElement) and register.is_world:
                problem = f'link "{member.name}" of a model that is merged into the world has no model to belong to'
                self._error("merged-links", problem, member.origin, "it is left out")
            else:
                kind = _KINDS[type(member)]
                self._register(FrameNode(kind, member.name, member, scope, home), register)

    def _add_model(self, model: ModelElement, scope: Scope, register: Scope, home: FrameNode | None) -> None:
        if model.merged:
            self._add_merged(model, scope, register, home)
            return
        node = FrameNode(FrameKind.MODEL, model.name, model, scope, home)
        self._register(node, register)
        top = home is None
        inside = Scope(model, "" if top else f"{register.prefix}{node.name}{SCOPE}", register)
        inside.static = model.static or register.static
        inside.own, node.inside = node, inside
        self._fill(inside, model, inside, node if top else home)

    def _add_merged(self, model: ModelElement, scope: Scope, register: Scope, home: FrameNode | None) -> None:
        """A merged model: a frame in the place of its `__model__`, and its members among those of the model around."""
        proxy = FrameNode(FrameKind.MERGED, f"_merged__{model.name}{MODEL_FRAME}", model, scope, home)
        self._register(proxy, register)
        inside = Scope(model, register.prefix, register.around)
        inside.static = register.static
        inside.names, inside.links, inside.joints = register.names, register.links, register.joints
        inside.members = register.members
        inside.own, proxy.inside = proxy, inside
        self._fill(inside, model, register, home)

    def _register(self, node: FrameNode, scope: Scope) -> None:
        """Enter a frame under its name; names of links, and of joints, become unique."""
        scope.members.append(node)
        same_kind = {FrameKind.LINK: scope.links, FrameKind.JOINT: scope.joints}.get(node.kind, scope.names)
        other = scope.names.get(node.name)
        strict = scope.element.version.names_are_unique_among_siblings
        if node.name in same_kind:
            fresh = unique_name(node.name, set(same_kind) | set(scope.names))
            self._duplicate(node, same_kind[node.name], strict or node.kind is not FrameKind.FRAME, fresh)
            node.name = fresh
        elif other is not None and strict:
            self._duplicate(node, other, strict)
        if node.kind is FrameKind.LINK and other is not None and node.name == other.name:
            scope.names[node.name] = node  # where a link and a joint share a name, it stands for the link
        scope.names.setdefault(node.name, node)
        same_kind.setdefault(node.name, node)

    def _duplicate(self, node: FrameNode, other: FrameNode, strict: bool, fresh: str = "") -> None:
        hint = f"the later one is called {fresh!r}" if fresh else "give every link, joint and frame its own name"
        problem = f'{node.kind.value} "{node.name}" has the name of another {other.kind.value}'
        report = self.diagnostics.error if strict else self.diagnostics.warning
        report(f"{sdf.FORMAT}.duplicate-name", problem, hint=hint, origin=node.element.origin)

    def _error(self, code: str, problem: str, origin: Origin, hint: str = "") -> None:
        self.diagnostics.error(f"{sdf.FORMAT}.{code}", problem, hint=hint, origin=origin)

    # -- connecting -----------------------------------------------------------------------------------------------

    def lookup(self, scope: Scope, name: str, what: str, origin: Origin) -> FrameNode | None:
        """The frame of a name, or None with an error."""
        found = scope.find(name)
        if found is None:
            hint = "a frame is named from inside its own model: a link, joint, frame or nested::frame"
            self._error("unknown-frame", f"{what} names {name!r}, which is no frame there", origin, hint)
        return found

    def _connect(self, node: FrameNode) -> None:
        element, scope = node.element, node.scope
        what = f'{node.kind.value} "{element.name}"'
        relative_to = element.pose.relative_to
        if relative_to:
            node.base = self.lookup(scope, relative_to, f"the pose of {what}", element.pose.origin)
        if isinstance(element, FrameElement):
            if element.attached_to:
                node.attached = self.lookup(scope, element.attached_to, what, element.origin)
            node.attached = node.attached or scope.own
            node.base = node.base or node.attached
        elif isinstance(element, JointElement):
            node.attached = self._joint_end(scope, element.child)
            node.base = node.base or node.attached
        elif isinstance(element, ModelElement):
            self._connect_model(node, element)
        node.base = node.base or scope.own

    def _joint_end(self, scope: Scope, name: str) -> FrameNode | None:
        """The frame a joint names; the joint's own conversion reports one that is missing."""
        if name == WORLD:
            return self.world
        return scope.find(name) if name else None

    def _connect_model(self, node: FrameNode, model: ModelElement) -> None:
        assert node.inside is not None
        if model.placement_frame and model.placement_frame != MODEL_FRAME:
            what = f'the placement frame of model "{model.name}"'
            node.placement = self.lookup(node.inside, model.placement_frame, what, model.origin)
        if model.static and not model.merged:
            node.attached = self.world
            return
        if model.canonical_link:
            what = f'the canonical link of model "{model.name}"'
            node.attached = self.lookup(node.inside, model.canonical_link, what, model.origin)
        node.attached = node.attached or self._first_body(model, node.inside)
        if node.attached is None:
            hint = "add a link, or make it static"
            self._error("no-links", f'model "{model.name}" has no links', model.origin, hint)
            node.attached = self.world

    def _first_body(self, model: ModelElement, inside: Scope) -> FrameNode | None:
        """The first link of a model, or the first model inside it that has one."""
        elements = {id(m) for m in _direct_members(model)}
        own = [m for m in inside.members if id(m.element) in elements]
        links = [m for m in own if m.kind is FrameKind.LINK]
        models = [m for m in own if m.kind is FrameKind.MODEL and _has_links(m)]
        return next(iter(links + models), None)

    def _break_cycles(self) -> None:
        """Poses that depend on themselves are reported, and made relative to the model around."""
        done: set[int] = {id(self.world)}
        for start in self.nodes():
            path: list[FrameNode] = []
            on_path: set[int] = set()
            node: FrameNode | None = start
            while node is not None and id(node) not in done:
                if id(node) in on_path:
                    what = f'the pose of {node.kind.value} "{node.element.name}" depends on itself'
                    self._error("frame-cycle", what, node.element.origin, "it is read relative to its model")
                    # a model that is placed by what is inside of it stands in the way of its own members
                    node.base = node.scope.own if node.scope.own is not node else self.world
                    if self._reaches(node.base, node):
                        node.base = self.world
                    break
                on_path.add(id(node))
                path.append(node)
                node = node.base
            done |= on_path

    @staticmethod
    def _reaches(start: FrameNode | None, goal: FrameNode) -> bool:
        seen: set[int] = set()
        while start is not None and id(start) not in seen:
            if start is goal:
                return True
            seen.add(id(start))
            start = start.base
        return False

    # -- asking ---------------------------------------------------------------------------------------------------

    def body(self, node: FrameNode) -> FrameNode | None:
        """The link a frame is attached to; None for the world."""
        path: list[FrameNode] = []
        seen: set[int] = set()
        here: FrameNode | None = node
        while here is not None and id(here) not in self._bodies and here.kind is not FrameKind.LINK:
            if id(here) in seen:
                problem = f'{here.kind.value} "{here.element.name}" is attached to itself'
                self._error("frame-cycle", problem, here.element.origin, "it is attached to the world")
                here = None
                break
            seen.add(id(here))
            path.append(here)
            here = None if here.kind is FrameKind.WORLD else here.attached
        link = here if here is None or here.kind is FrameKind.LINK else self._bodies[id(here)]
        for passed in path:
            self._bodies[id(passed)] = link
        return link

    def in_world(self, node: FrameNode) -> Pose:
        """The pose of a frame in the world."""
        anchor, pose = self._anchored(node)
        path: list[FrameNode] = []
        while anchor is not None and id(anchor) not in self._in_world:
            path.append(anchor)
            anchor, _ = self._anchored(anchor.base or self.world)
        here = Pose() if anchor is None else self._in_world[id(anchor)]
        for passed in reversed(path):
            here = here @ self._anchored(passed.base or self.world)[1] @ self._offset(passed)
            self._in_world[id(passed)] = here
        return here @ pose

    def in_model(self, node: FrameNode, top: FrameNode) -> Pose:
        """The pose of a frame in the top-level model `top`."""
        anchor, pose = self._anchored(node)
        return pose if anchor is top else self.in_world(top).inverse() @ self.in_world(node)

    def relative(self, node: FrameNode, to: FrameNode) -> Pose:
        """The pose of a frame in another one."""
        if node is to:
            return Pose()
        (anchor_a, pose_a), (anchor_b, pose_b) = self._anchored(node), self._anchored(to)
        if anchor_a is anchor_b:
            return pose_b.inverse() @ pose_a
        return self.in_world(to).inverse() @ self.in_world(node)

    def resolve(self, pose: PoseElement, scope: Scope, default: FrameNode, what: str) -> Pose:
        """A pose inside a link or joint, in the frame of that link or joint."""
        if not pose.relative_to:
            return pose.pose
        base = self.lookup(scope, pose.relative_to, f"the pose of {what}", pose.origin)
        return pose.pose if base is None else self.relative(base, default) @ pose.pose

    def _anchored(self, node: FrameNode) -> tuple[FrameNode | None, Pose]:
        """The pose in the next top-level model up the chain, or in the world (None)."""
        path: list[FrameNode] = []
        here = node
        while id(here) not in self._poses:
            if here.base is None:
                self._poses[id(here)] = (None, Pose())
            elif here.kind is FrameKind.MODEL and here.home is None:
                self._poses[id(here)] = (here, Pose())
            else:
                path.append(here)
                here = here.base
        anchor, pose = self._poses[id(here)]
        for passed in reversed(path):
            pose = pose @ self._offset(passed)
            self._poses[id(passed)] = (anchor, pose)
        return anchor, pose

    def _offset(self, node: FrameNode) -> Pose:
        """The pose of a frame in what it is relative to."""
        raw = node.element.pose.pose
        if node.placement is None:
            return raw
        inside, here = Pose(), node.placement
        while here is not node and here.base is not None:
            inside = self._offset(here) @ inside
            here = here.base
        if here is not node:
            node.placement = None
            problem = f'the placement frame of model "{node.element.name}" is placed from outside the model'
            self._error("placement-frame", problem, node.element.origin, "the model's own frame is placed")
            return raw
        return raw @ inside.inverse()


def _direct_members(model: ModelElement) -> Iterator[Element]:
    """The members of a model and of those merged into it."""
    for member in model.members:
        if isinstance(member, ModelElement) and member.merged:
            yield from _direct_members(member)
        else:
            yield member


def _has_links(node: FrameNode) -> bool:
    inside = node.inside
    return inside is not None and any(
        m.kind is FrameKind.LINK or (m.kind is FrameKind.MODEL and _has_links(m)) for m in inside.members
    )
