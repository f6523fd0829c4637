"""A whole file to a robot or a world."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kinema.description import Extra, Frame, Robot, World
from kinema.foundation import Diagnostics, ReadError, unique_name
from kinema.words import sdf

from ..resolve import Resolver
from .convert_link import convert_light
from .convert_model import RobotBuilder
from .convert_shape import ShapeConverter, prefixed
from .elements import CollisionElement, JointElement, ModelElement, RootElement, WorldElement
from .frames import FrameGraph
from .scopes import FrameKind, FrameNode


def convert(root: RootElement, file: Path, diagnostics: Diagnostics, resolver: Resolver) -> Robot | World:
    """One model alone is a robot; everything else is a world."""
    if not (root.worlds or root.models or root.lights or root.actors):
        raise ReadError(f"{root.origin}: <sdf> holds no model and no world")
    converter = _WorldConverter(root, diagnostics, resolver)
    robots = converter.robots()
    if not root.worlds and len(root.models) == 1 and len(robots) == 1 and not (root.lights or root.actors):
        robot = robots[0]
        robot.extras += root.extras
        robot.source = str(file)
        return robot
    world = converter.world(robots)
    world.source = str(file)
    for robot in robots:
        robot.source = str(file)
    return world


class _WorldConverter:
    """Works on the first world of a file, or on one made up around its models."""

    def __init__(self, root: RootElement, diagnostics: Diagnostics, resolver: Resolver) -> None:
        self.root, self.diagnostics = root, diagnostics
        self.element = root.worlds[0] if root.worlds else WorldElement(version=root.version, origin=root.origin)
        self._report_several()
        self.element.members += root.models
        self.graph = FrameGraph(self.element, diagnostics)
        self.shapes = ShapeConverter(diagnostics, resolver, self._default_bitmask())
        self.free_frames: list[FrameNode] = []

    def _report_several(self) -> None:
        for other in self.root.worlds[1:]:
            problem = f'world "{other.name}" is not read: only the first world of a file is'
            self._report("warning", "several-worlds", problem, other)
        if self.root.version.scopes_are_closed and not self.root.worlds:
            for other in self.root.models[1:]:
                problem = f'model "{other.name}" is not the only one: since SDFormat 1.8 a file holds one model'
                self._report("error", "several-models", problem, other, "put the models into a <world>")

    def _report(
        self, severity: str, code: str, problem: str, element: WorldElement | ModelElement, hint: str = ""
    ) -> None:
        getattr(self.diagnostics, severity)(f"{sdf.FORMAT}.{code}", problem, hint=hint, origin=element.origin)

    def _default_bitmask(self) -> int:
        """Bit masks matter only if some collision has one; else every shape keeps the plain 1."""
        for collision in _collisions(self.element):
            surface = collision.surface
            if surface is not None and (surface.collide_bitmask is not None or surface.category_bitmask is not None):
                return self.element.version.default_bitmask
        return 1

    # -- robots ---------------------------------------------------------------------------------------------------

    def robots(self) -> list[Robot]:
        """A robot for every model, or for every group of models that joints of the world hold together."""
        scope = self.graph.world_scope
        models = [n for n in scope.members if n.kind is FrameKind.MODEL]
        joints = [n for n in scope.members if n.kind is FrameKind.JOINT]
        frames = [n for n in scope.members if n.kind in (FrameKind.FRAME, FrameKind.MERGED)]
        groups = _Groups(models)
        for joint in joints:
            element = joint.element
            assert isinstance(element, JointElement)
            ends = [self._home(joint, name) for name in (element.parent, element.child)]
            groups.join([e for e in ends if e is not None], joint)
        homes = {id(f): self.graph.body(f) for f in frames}
        self.free_frames = [f for f in frames if homes[id(f)] is None]
        built: list[Robot] = []
        for members, own_joints in groups.all():
            inside = {id(m) for m in members}
            attached = [f for f in frames if (body := homes[id(f)]) is not None and id(body.home) in inside]
            built.append(RobotBuilder(self.graph, self.shapes, self.diagnostics, members, own_joints, attached).build())
        if groups.loose:
            self._report_loose(groups.loose)
        taken: set[str] = set()
        for robot in built:
            robot.name = unique_name(robot.name, taken)  # the frame graph has reported models of one name
        return built

    def _home(self, joint: FrameNode, name: str) -> FrameNode | None:
        frame = joint.scope.find(name)
        body = None if frame is None else self.graph.body(frame)
        return None if body is None else body.home

    def _report_loose(self, joints: list[FrameNode]) -> None:
        for joint in joints:
            element = joint.element
            assert isinstance(element, JointElement)
            self.element.extras.append(Extra(sdf.FORMAT, "joint", element.verbatim, element.origin))
            problem = f'joint "{element.name}" of the world connects no model'
            hint = "name links as model::link; it is left out"
            self.diagnostics.error(f"{sdf.FORMAT}.unknown-link", problem, hint=hint, origin=element.origin)

    # -- the world ------------------------------------------------------------------------------------------------

    def world(self, robots: list[Robot]) -> World:
        """The world around the robots."""
        element, root = self.element, self.root
        world = World(
            name=element.name,
            name_is_generated=element.name_is_generated or not element.name,
            origin=element.origin,
            format=sdf.FORMAT,
            diagnostics=self.diagnostics,
            robots=robots,
            extras=[*element.extras, *root.extras, *root.actors],
            attributes={**prefixed(element.settings), sdf.key(sdf.VERSION): str(root.version)},
        )
        if root.worlds:
            world.gravity = element.gravity
        if element.timestep is not None:
            world.options["timestep"] = element.timestep
        for light in [*element.lights, *root.lights]:
            what = f'light "{light.name}"'
            pose = self.graph.resolve(light.pose, self.graph.world_scope, self.graph.world, what)
            world.lights.append(convert_light(light, pose, None))
        for node in self.free_frames:
            frame = Frame(name=node.name, origin=node.element.origin, link=None, pose=self.graph.in_world(node))
            frame.extras = node.element.extras[:]
            world.frames.append(frame)
        return world


class _Groups:
    """Models that joints of the world hold together."""

    def __init__(self, models: list[FrameNode]) -> None:
        self.group_of = {id(m): [m] for m in models}
        self.joints: dict[int, list[FrameNode]] = {}
        self.loose: list[FrameNode] = []

    def join(self, models: list[FrameNode], joint: FrameNode) -> None:
        """Put the models of a joint into one group."""
        if not models:
            self.loose.append(joint)
            return
        first = self.group_of[id(models[0])]
        for other in models[1:]:
            group = self.group_of[id(other)]
            if group is not first:
                first += group
                for member in group:
                    self.group_of[id(member)] = first
        self.joints.setdefault(id(models[0]), []).append(joint)

    def all(self) -> Iterator[tuple[list[FrameNode], list[FrameNode]]]:
        """Every group with its joints, in the order of the file."""
        seen: set[int] = set()
        order = {m: i for i, m in enumerate(self.group_of)}
        for group in self.group_of.values():
            if id(group) in seen:
                continue
            seen.add(id(group))
            members = sorted(group, key=lambda m: order[id(m)])
            yield members, [j for m in members for j in self.joints.get(id(m), [])]


def _collisions(element: WorldElement | ModelElement) -> Iterator[CollisionElement]:
    for model in element.models:
        for link in model.links:
            yield from link.collisions
        yield from _collisions(model)
