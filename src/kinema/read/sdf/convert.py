"""Converts the models and worlds of an SDFormat file to a robot or a world.

Nested models are flattened into one robot with scoped names (`model::link`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kinema.core import Diagnostics, Pose, ReadError, unique_name
from kinema.description import Base, CollisionGroup, Extra, Frame, Joint, JointKind, Link, Robot, World
from kinema.tokens import sdf

from ..resolve import Resolver
from .convert_joint import JointConverter, JointEnd, set_follower_states
from .convert_link import LinkConverter, convert_light
from .convert_shape import ShapeConverter, to_attributes
from .elements import (
    MODEL_FRAME,
    SCOPE_DELIMITER,
    WORLD_FRAME,
    CollisionElement,
    JointElement,
    LinkElement,
    ModelElement,
    RootElement,
    WorldElement,
)
from .frames import FrameGraph, FrameKind, Scope, SdfFrame

# -- models ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class RobotBuilder:
    """Builds the robot of one top-level model, or of several models connected by joints of the world."""

    graph: FrameGraph
    shapes: ShapeConverter
    diagnostics: Diagnostics
    models: list[SdfFrame]
    world_joints: list[SdfFrame]
    world_frames: list[SdfFrame] = field(default_factory=list)
    """Frames of the world that are attached to one of the models."""
    robot: Robot = field(init=False)
    frame_names: dict[int, str] = field(default_factory=dict)
    """id of the frame of a link or joint -> name."""
    used_joint_names: set[str] = field(default_factory=set)

    def build(self) -> Robot:
        """Build the robot with links, joints, frames, sensors and root."""
        first = _model_element(self.models[0])
        several = len(self.models) > 1
        self.robot = Robot(
            name="+".join(m.name for m in self.models),
            name_is_generated=first.name_is_generated or several,
            origin=first.origin,
            format=sdf.FORMAT,
        )
        if not several:
            self.robot.pose = self.graph.pose_in_world(self.models[0])
        self.robot.diagnostics = self.diagnostics
        self.robot.static = all(_model_element(m).static for m in self.models)
        self.robot.collision.self_collide = first.self_collide or several
        for model in self.models:
            self._add_model_data(model)
        links = [n for n in self._frames() if n.kind is FrameKind.LINK]
        joints = [n for n in self._frames() if n.kind is FrameKind.JOINT] + self.world_joints
        self._add_links(links)
        self._add_joints(joints)
        self._fix_static_links(links)
        for node in [*self._frames(), *self.world_frames]:
            if node.kind in (FrameKind.FRAME, FrameKind.MERGED) or (
                node.kind is FrameKind.MODEL and node.top_level_model
            ):
                self._add_frame(node)
        self._choose_root()
        return self.robot

    # -- poses and names ------------------------------------------------------------------------------------------

    def _frames(self) -> Iterator[SdfFrame]:
        """All frames inside the models, in file order (depth first)."""
        stack = [iter(self._inner_scope(m).members) for m in reversed(self.models)]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            yield node
            if node.kind is FrameKind.MODEL:
                stack.append(iter(self._inner_scope(node).members))

    @staticmethod
    def _inner_scope(node: SdfFrame) -> Scope:
        assert node.inner_scope is not None
        return node.inner_scope

    def _pose_in_robot(self, node: SdfFrame) -> Pose:
        """Pose in the base frame of the robot: of the model, or of the world for several models."""
        if len(self.models) > 1:
            return self.graph.pose_in_world(node)
        return self.graph.pose_in_model(node, self.models[0])

    def _scoped_name(self, node: SdfFrame) -> str:
        """Name scoped from the robot; prefixed by the model for several models."""
        if len(self.models) > 1 and node.top_level_model is not None:
            return f"{node.top_level_model.name}{SCOPE_DELIMITER}{node.path}"
        return node.path

    def _unique_name(self, node: SdfFrame, used_names: set[str]) -> str:
        """Scoped name made unique; in old files `::` in names can cause collisions, which are reported."""
        scoped_name = self._scoped_name(node)
        name = unique_name(scoped_name, used_names)
        if name != scoped_name:
            problem = f'two {node.kind.value}s of the robot are called "{scoped_name}"'
            hint = f"the later one is called {name!r}"
            self.diagnostics.error(f"{sdf.FORMAT}.duplicate-name", problem, hint=hint, origin=node.element.origin)
        return name

    # -- elements -------------------------------------------------------------------------------------------------

    def _add_model_data(self, node: SdfFrame) -> None:
        """Add attributes and extras of a model to the robot."""
        model = _model_element(node)
        several = len(self.models) > 1
        attributes = to_attributes(model.settings)
        attributes[sdf.attribute_key(sdf.VERSION)] = str(model.version)
        if model.canonical_link:
            attributes[sdf.attribute_key(sdf.CANONICAL_LINK)] = model.canonical_link
        if several:
            self.robot.attributes.setdefault(sdf.attribute_key(sdf.MODELS), {})[node.name] = attributes
        else:
            self.robot.attributes |= attributes
        self.robot.extras += model.extras

    def _add_links(self, nodes: list[SdfFrame]) -> None:
        converter = LinkConverter(self.graph, self.shapes, self.diagnostics)
        taken: set[str] = set()
        for node in nodes:
            name = self._unique_name(node, taken)
            self.frame_names[id(node)] = name
            link = converter.convert_link(node, name, self._pose_in_robot(node))
            self._set_self_collide(link, node)
            self.robot.links.append(link)
            converter.add_sensors_and_lights(node, link, self.robot)

    def _set_self_collide(self, link: Link, node: SdfFrame) -> None:
        """Self-collision of a link: its own setting, else that of its model."""
        element, model = node.element, node.scope.element
        assert isinstance(element, LinkElement)
        self_collide = element.self_collide
        if self_collide is None:
            self_collide = isinstance(model, ModelElement) and model.self_collide
        if len(self.models) > 1:
            if not self_collide:
                self._self_collision_group(node.top_level_model or node).members.append(link.name)
        elif self_collide != self.robot.collision.self_collide:
            link.self_collide = self_collide

    def _self_collision_group(self, model: SdfFrame) -> CollisionGroup:
        """Collision group of the links of one of several models that do not collide with each other."""
        name = f"{model.name}{SCOPE_DELIMITER}no_self_collision"
        found = next((g for g in self.robot.collision.groups if g.name == name), None)
        if found is None:
            found = CollisionGroup(name=name, name_is_generated=True, filtered=[name])
            self.robot.collision.groups.append(found)
        return found

    def _add_joints(self, nodes: list[SdfFrame]) -> None:
        """Convert joints and gearboxes with their sensors, then resolve mimics."""
        converter = JointConverter(self.graph, self.diagnostics)
        sensors = LinkConverter(self.graph, self.shapes, self.diagnostics)
        converted: list[tuple[SdfFrame, Joint]] = []
        for node in nodes:
            element = node.element
            assert isinstance(element, JointElement)
            ends = self._joint_ends(node, element)
            if ends is None:
                self.robot.extras.append(Extra(sdf.FORMAT, "joint", element.verbatim, element.origin))
                continue
            name = self._unique_name(node, self.used_joint_names)
            if element.kind == "gearbox":
                reference = self._gear_reference(node, element)
                self.robot.constraints.append(converter.gearbox_constraint(node, name, *ends, reference))
            else:
                self.frame_names[id(node)] = name
                joint = converter.convert_joint(node, name, *ends)
                self.robot.joints.append(joint)
                converted.append((node, joint))
            sensors.add_joint_sensors(node, element.sensors, name, self.robot)
        for node, joint in converted:
            converter.apply_mimics(node, joint, self.frame_names)
        set_follower_states(self.robot.joints)

    def _joint_ends(self, node: SdfFrame, element: JointElement) -> tuple[JointEnd, JointEnd] | None:
        """Both ends of a joint; None with an error if it does not connect two bodies."""
        parent, child = (self._joint_end(node, element, tag) for tag in ("parent", "child"))
        if parent is None or child is None:
            return None
        if child.link is None:
            problem = f'the child of joint "{element.name}" is the world, which cannot move'
            self._error("joint-child-world", problem, element, "swap parent and child")
        if parent.link == child.link:
            body = "the world" if parent.link is None else f"link {parent.link!r}"
            problem = f'joint "{element.name}" connects {body} with itself'
            self._error("joint-connects-nothing", problem, element, "it is left out")
            return None
        return parent, child

    def _joint_end(self, node: SdfFrame, element: JointElement, tag: str) -> JointEnd | None:
        """One end of a joint; None with an error if its frame is missing or unknown."""
        name = element.parent if tag == "parent" else element.child
        if not name:
            self._error("missing-element", f'joint "{element.name}" has no <{tag}>', element, "it is left out")
            return None
        frame = self.graph.world if name == WORLD_FRAME else node.scope.find(name)
        if frame is None:
            problem = f'the {tag} of joint "{element.name}" is {name!r}, which is no link or frame there'
            self._error("unknown-link", problem, element, "the joint is left out")
            return None
        body = self.graph.attached_link(frame)
        if body is None or id(body) not in self.frame_names:
            return JointEnd(None, self._pose_in_robot(node), None)
        return JointEnd(self.frame_names[id(body)], self.graph.relative_pose(node, body), body)

    def _gear_reference(self, node: SdfFrame, element: JointElement) -> str | None:
        """Link name of the reference body of a gearbox; None for the world."""
        if not element.gearbox_reference:
            problem = f'gearbox "{element.name}" has no <gearbox_reference_body>'
            hint = "the world is assumed"
            self.diagnostics.warning(f"{sdf.FORMAT}.gearbox-reference", problem, hint=hint, origin=element.origin)
            return None
        if element.gearbox_reference == WORLD_FRAME:
            return None
        what = f'the reference body of gearbox "{element.name}"'
        frame = self.graph.lookup(node.scope, element.gearbox_reference, what, element.origin)
        body = None if frame is None else self.graph.attached_link(frame)
        return None if body is None else self.frame_names.get(id(body))

    def _fix_static_links(self, nodes: list[SdfFrame]) -> None:
        """Add implicit fixed joints for links of static models inside a non-static robot."""
        if self.robot.static:
            return
        for node in nodes:
            if node.scope.static:
                name = self.frame_names[id(node)]
                joint = Joint(
                    name=unique_name(f"{name}{SCOPE_DELIMITER}static", self.used_joint_names),
                    name_is_generated=True,
                    origin=node.element.origin,
                    kind=JointKind.FIXED,
                    parent=None,
                    child=name,
                    parent_pose=self._pose_in_robot(node),
                    implicit=True,
                )
                self.robot.joints.append(joint)

    def _add_frame(self, node: SdfFrame) -> None:
        """Add a frame, or the frame of a nested model with its attributes."""
        body = self.graph.attached_link(node)
        link = None if body is None else self.frame_names.get(id(body))
        frame = Frame(
            name=self._scoped_name(node),
            name_is_generated=node.element.name_is_generated,
            origin=node.element.origin,
            link=link,
            pose=self._pose_in_robot(node) if body is None or link is None else self.graph.relative_pose(node, body),
            extras=node.element.extras[:],
            attributes=to_attributes(node.element.settings),
        )
        element = node.element
        if isinstance(element, ModelElement):
            if node.kind is FrameKind.MODEL:
                frame.name += SCOPE_DELIMITER + MODEL_FRAME
            frame.attributes |= {
                sdf.attribute_key(sdf.MODEL): element.name,
                sdf.attribute_key(sdf.STATIC): element.static,
            }
            frame.attributes |= {
                sdf.attribute_key(sdf.VERSION): str(element.version),
                sdf.attribute_key(sdf.MERGED): element.merged,
            }
        if node.scope.is_world:
            frame.attributes[sdf.attribute_key(sdf.SCOPE)] = WORLD_FRAME
        self.robot.frames.append(frame)

    def _choose_root(self) -> None:
        """Set root and base: a declared canonical link is the root unless it is the child of a joint."""
        robot = self.robot
        model = self.models[0]
        declared = (
            self.graph.attached_link(model) if _model_element(model).canonical_link and len(self.models) == 1 else None
        )
        name = None if declared is None else self.frame_names.get(id(declared))
        if name is not None and all(j.child != name for j in robot.joints):
            robot.root = name
        if robot.static:
            robot.base = Base.FIXED
        else:
            is_unspecified = _model_element(model).base == Base.UNSPECIFIED.value
            free = Base.UNSPECIFIED if is_unspecified else Base.FREE
            robot.base = free if robot.tree().roots else Base.FIXED

    def _error(self, code: str, problem: str, element: JointElement, hint: str = "") -> None:
        self.diagnostics.error(f"{sdf.FORMAT}.{code}", problem, hint=hint, origin=element.origin)


def _model_element(node: SdfFrame) -> ModelElement:
    assert isinstance(node.element, ModelElement)
    return node.element


# -- files -------------------------------------------------------------------------------------------------------------


def convert(root: RootElement, file: Path, diagnostics: Diagnostics, resolver: Resolver) -> Robot | World:
    """Convert a file to a robot if it contains a single model only, otherwise to a world."""
    if not (root.worlds or root.models or root.lights or root.actors):
        raise ReadError(f"{root.origin}: <sdf> holds no model and no world")
    converter = _WorldConverter(root, diagnostics, resolver)
    robots = converter.convert_robots()
    if not root.worlds and len(root.models) == 1 and len(robots) == 1 and not (root.lights or root.actors):
        robot = robots[0]
        robot.extras += root.extras
        robot.source = str(file)
        return robot
    world = converter.convert_world(robots)
    world.source = str(file)
    for robot in robots:
        robot.source = str(file)
    return world


class _WorldConverter:
    """Converts the first world of a file, or an implicit world around its models."""

    def __init__(self, root: RootElement, diagnostics: Diagnostics, resolver: Resolver) -> None:
        self.root, self.diagnostics = root, diagnostics
        self.element = root.worlds[0] if root.worlds else WorldElement(version=root.version, origin=root.origin)
        self._report_ignored_models()
        self.element.members += root.models
        self.graph = FrameGraph(self.element, diagnostics)
        self.shapes = ShapeConverter(diagnostics, resolver, self._default_bitmask())
        self.world_frames: list[SdfFrame] = []

    def _report_ignored_models(self) -> None:
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
        """Default bit mask of collisions; 1 unless some collision has an explicit bit mask."""
        for collision in _collision_elements(self.element):
            surface = collision.surface
            if surface is not None and (surface.collide_bitmask is not None or surface.category_bitmask is not None):
                return self.element.version.default_bitmask
        return 1

    # -- robots ---------------------------------------------------------------------------------------------------

    def convert_robots(self) -> list[Robot]:
        """One robot per model, or per group of models connected by joints of the world."""
        scope = self.graph.world_scope
        models = [n for n in scope.members if n.kind is FrameKind.MODEL]
        joints = [n for n in scope.members if n.kind is FrameKind.JOINT]
        frames = [n for n in scope.members if n.kind in (FrameKind.FRAME, FrameKind.MERGED)]
        groups = _ModelGroups(models)
        for joint in joints:
            element = joint.element
            assert isinstance(element, JointElement)
            ends = [self._joint_end_model(joint, name) for name in (element.parent, element.child)]
            groups.merge([e for e in ends if e is not None], joint)
        attached_links = {id(f): self.graph.attached_link(f) for f in frames}
        self.world_frames = [f for f in frames if attached_links[id(f)] is None]
        built: list[Robot] = []
        for members, group_joints in groups.groups():
            member_ids = {id(m) for m in members}
            attached = [
                f
                for f in frames
                if (body := attached_links[id(f)]) is not None and id(body.top_level_model) in member_ids
            ]
            built.append(
                RobotBuilder(self.graph, self.shapes, self.diagnostics, members, group_joints, attached).build()
            )
        if groups.loose:
            self._report_unconnected_joints(groups.loose)
        taken: set[str] = set()
        for robot in built:
            robot.name = unique_name(robot.name, taken)  # duplicate names were reported by the frame graph
        return built

    def _joint_end_model(self, joint: SdfFrame, name: str) -> SdfFrame | None:
        frame = joint.scope.find(name)
        body = None if frame is None else self.graph.attached_link(frame)
        return None if body is None else body.top_level_model

    def _report_unconnected_joints(self, joints: list[SdfFrame]) -> None:
        """Report and preserve joints of the world that connect no model."""
        for joint in joints:
            element = joint.element
            assert isinstance(element, JointElement)
            self.element.extras.append(Extra(sdf.FORMAT, "joint", element.verbatim, element.origin))
            problem = f'joint "{element.name}" of the world connects no model'
            hint = "name links as model::link; it is left out"
            self.diagnostics.error(f"{sdf.FORMAT}.unknown-link", problem, hint=hint, origin=element.origin)

    # -- world ----------------------------------------------------------------------------------------------------

    def convert_world(self, robots: list[Robot]) -> World:
        """World with robots, gravity, lights and frames."""
        element, root = self.element, self.root
        world = World(
            name=element.name,
            name_is_generated=element.name_is_generated or not element.name,
            origin=element.origin,
            format=sdf.FORMAT,
            diagnostics=self.diagnostics,
            robots=robots,
            extras=[*element.extras, *root.extras, *root.actors],
            attributes={**to_attributes(element.settings), sdf.attribute_key(sdf.VERSION): str(root.version)},
        )
        if root.worlds:
            world.gravity = element.gravity
        if element.timestep is not None:
            world.options["timestep"] = element.timestep
        for light in [*element.lights, *root.lights]:
            what = f'light "{light.name}"'
            pose = self.graph.resolve_pose(light.pose, self.graph.world_scope, self.graph.world, what)
            world.lights.append(convert_light(light, pose, None))
        for node in self.world_frames:
            frame = Frame(name=node.name, origin=node.element.origin, link=None, pose=self.graph.pose_in_world(node))
            frame.extras = node.element.extras[:]
            world.frames.append(frame)
        return world


class _ModelGroups:
    """Groups of models connected by joints of the world."""

    def __init__(self, models: list[SdfFrame]) -> None:
        self.group_of = {id(m): [m] for m in models}
        self.joints: dict[int, list[SdfFrame]] = {}
        self.loose: list[SdfFrame] = []

    def merge(self, models: list[SdfFrame], joint: SdfFrame) -> None:
        """Merge the groups of the models of a joint."""
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

    def groups(self) -> Iterator[tuple[list[SdfFrame], list[SdfFrame]]]:
        """All groups with their joints, in file order."""
        seen: set[int] = set()
        order = {m: i for i, m in enumerate(self.group_of)}
        for group in self.group_of.values():
            if id(group) in seen:
                continue
            seen.add(id(group))
            members = sorted(group, key=lambda m: order[id(m)])
            yield members, [j for m in members for j in self.joints.get(id(m), [])]


def _collision_elements(element: WorldElement | ModelElement) -> Iterator[CollisionElement]:
    for model in element.models:
        for link in model.links:
            yield from link.collisions
        yield from _collision_elements(model)
