"""One or several models to one robot: nested models are flattened, their names scoped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema.description import Base, CollisionGroup, Extra, Frame, Joint, JointKind, Link, Robot
from kinema.foundation import Diagnostics, Pose, unique_name
from kinema.words import sdf

from .convert_joint import End, JointConverter, show_followers
from .convert_link import LinkConverter
from .convert_shape import ShapeConverter, prefixed
from .elements import MODEL_FRAME, SCOPE, WORLD, JointElement, LinkElement, ModelElement
from .frames import FrameGraph
from .scopes import FrameKind, FrameNode, Scope


@dataclass(slots=True, eq=False)
class RobotBuilder:
    """Builds the robot of one top-level model, or of several that joints of the world hold together."""

    graph: FrameGraph
    shapes: ShapeConverter
    diagnostics: Diagnostics
    models: list[FrameNode]
    world_joints: list[FrameNode]
    world_frames: list[FrameNode] = field(default_factory=list)
    """Frames of the world that are attached to one of the models."""
    robot: Robot = field(init=False)
    names: dict[int, str] = field(default_factory=dict)
    """Of links and joints, by the identity of their frame."""
    taken_joints: set[str] = field(default_factory=set)

    def build(self) -> Robot:
        """The robot with all its parts."""
        first = _model(self.models[0])
        several = len(self.models) > 1
        self.robot = Robot(
            name="+".join(m.name for m in self.models),
            name_is_generated=first.name_is_generated or several,
            origin=first.origin,
            format=sdf.FORMAT,
        )
        if not several:
            self.robot.pose = self.graph.in_world(self.models[0])
        self.robot.diagnostics = self.diagnostics
        self.robot.static = all(_model(m).static for m in self.models)
        self.robot.collision.self_collide = first.self_collide or several
        for model in self.models:
            self._add_model_data(model)
        links = [n for n in self._nodes() if n.kind is FrameKind.LINK]
        joints = [n for n in self._nodes() if n.kind is FrameKind.JOINT] + self.world_joints
        self._add_links(links)
        self._add_joints(joints)
        self._hold_static_links(links)
        for node in [*self._nodes(), *self.world_frames]:
            if node.kind in (FrameKind.FRAME, FrameKind.MERGED) or (node.kind is FrameKind.MODEL and node.home):
                self._add_frame(node)
        self._choose_root()
        return self.robot

    # -- where and what it is called ------------------------------------------------------------------------------

    def _nodes(self) -> Iterator[FrameNode]:
        """Everything inside the models, in the order of the file."""
        stack = [iter(self._inside(m).members) for m in reversed(self.models)]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                continue
            yield node
            if node.kind is FrameKind.MODEL:
                stack.append(iter(self._inside(node).members))

    @staticmethod
    def _inside(node: FrameNode) -> Scope:
        assert node.inside is not None
        return node.inside

    def _pose(self, node: FrameNode) -> Pose:
        """In the robot's base frame: the model's, or the world's where several models make one robot."""
        if len(self.models) > 1:
            return self.graph.in_world(node)
        return self.graph.in_model(node, self.models[0])

    def _name(self, node: FrameNode) -> str:
        """Scoped from the robot on; the names of joined models come first."""
        if len(self.models) > 1 and node.home is not None:
            return f"{node.home.name}{SCOPE}{node.path}"
        return node.path

    def _unique(self, node: FrameNode, taken: set[str]) -> str:
        """Its name; in old files a name that holds `::` can be that of a part of a nested model."""
        wanted = self._name(node)
        name = unique_name(wanted, taken)
        if name != wanted:
            problem = f'two {node.kind.value}s of the robot are called "{wanted}"'
            hint = f"the later one is called {name!r}"
            self.diagnostics.error(f"{sdf.FORMAT}.duplicate-name", problem, hint=hint, origin=node.element.origin)
        return name

    # -- parts ----------------------------------------------------------------------------------------------------

    def _add_model_data(self, node: FrameNode) -> None:
        model = _model(node)
        several = len(self.models) > 1
        own = prefixed(model.settings)
        own[sdf.key(sdf.VERSION)] = str(model.version)
        if model.canonical_link:
            own[sdf.key(sdf.CANONICAL_LINK)] = model.canonical_link
        if several:
            self.robot.attributes.setdefault(sdf.key(sdf.MODELS), {})[node.name] = own
        else:
            self.robot.attributes |= own
        self.robot.extras += model.extras

    def _add_links(self, nodes: list[FrameNode]) -> None:
        converter = LinkConverter(self.graph, self.shapes, self.diagnostics)
        taken: set[str] = set()
        for node in nodes:
            name = self._unique(node, taken)
            self.names[id(node)] = name
            link = converter.link(node, name, self._pose(node))
            self._set_self_collide(link, node)
            self.robot.links.append(link)
            converter.carried(node, link, self.robot)

    def _set_self_collide(self, link: Link, node: FrameNode) -> None:
        """A link may say by itself, else its model does; the robot's rule is that of its model."""
        element, model = node.element, node.scope.element
        assert isinstance(element, LinkElement)
        says = element.self_collide
        if says is None:
            says = isinstance(model, ModelElement) and model.self_collide
        if len(self.models) > 1:
            if not says:
                self._apart(node.home or node).members.append(link.name)
        elif says != self.robot.collision.self_collide:
            link.self_collide = says

    def _apart(self, model: FrameNode) -> CollisionGroup:
        """Of several models in one robot: the links of one that do not collide with one another, but with the rest."""
        name = f"{model.name}{SCOPE}no_self_collision"
        found = next((g for g in self.robot.collision.groups if g.name == name), None)
        if found is None:
            found = CollisionGroup(name=name, name_is_generated=True, filtered=[name])
            self.robot.collision.groups.append(found)
        return found

    def _add_joints(self, nodes: list[FrameNode]) -> None:
        converter = JointConverter(self.graph, self.diagnostics)
        sensors = LinkConverter(self.graph, self.shapes, self.diagnostics)
        made: list[tuple[FrameNode, Joint]] = []
        for node in nodes:
            element = node.element
            assert isinstance(element, JointElement)
            ends = self._ends(node, element)
            if ends is None:
                self.robot.extras.append(Extra(sdf.FORMAT, "joint", element.verbatim, element.origin))
                continue
            name = self._unique(node, self.taken_joints)
            if element.kind == "gearbox":
                reference = self._gear_reference(node, element)
                self.robot.constraints.append(converter.gear(node, name, *ends, reference))
            else:
                self.names[id(node)] = name
                joint = converter.joint(node, name, *ends)
                self.robot.joints.append(joint)
                made.append((node, joint))
            sensors.joint_sensors(node, element.sensors, name, self.robot)
        for node, joint in made:
            converter.mimics(node, joint, self.names)
        show_followers(self.robot.joints)

    def _ends(self, node: FrameNode, element: JointElement) -> tuple[End, End] | None:
        """Both ends of a joint, or None, with an error, where it does not connect two bodies."""
        parent, child = (self._end(node, element, tag) for tag in ("parent", "child"))
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

    def _end(self, node: FrameNode, element: JointElement, tag: str) -> End | None:
        name = element.parent if tag == "parent" else element.child
        if not name:
            self._error("missing-element", f'joint "{element.name}" has no <{tag}>', element, "it is left out")
            return None
        frame = self.graph.world if name == WORLD else node.scope.find(name)
        if frame is None:
            problem = f'the {tag} of joint "{element.name}" is {name!r}, which is no link or frame there'
            self._error("unknown-link", problem, element, "the joint is left out")
            return None
        body = self.graph.body(frame)
        if body is None or id(body) not in self.names:
            return End(None, self._pose(node), None)
        return End(self.names[id(body)], self.graph.relative(node, body), body)

    def _gear_reference(self, node: FrameNode, element: JointElement) -> str | None:
        if not element.gearbox_reference:
            problem = f'gearbox "{element.name}" has no <gearbox_reference_body>'
            hint = "the world is assumed"
            self.diagnostics.warning(f"{sdf.FORMAT}.gearbox-reference", problem, hint=hint, origin=element.origin)
            return None
        if element.gearbox_reference == WORLD:
            return None
        what = f'the reference body of gearbox "{element.name}"'
        frame = self.graph.lookup(node.scope, element.gearbox_reference, what, element.origin)
        body = None if frame is None else self.graph.body(frame)
        return None if body is None else self.names.get(id(body))

    def _hold_static_links(self, nodes: list[FrameNode]) -> None:
        """Links of a static model inside a robot that moves are held by joints that the file does not have."""
        if self.robot.static:
            return
        for node in nodes:
            if node.scope.static:
                name = self.names[id(node)]
                held = Joint(
                    name=unique_name(f"{name}{SCOPE}static", self.taken_joints),
                    name_is_generated=True,
                    origin=node.element.origin,
                    kind=JointKind.FIXED,
                    parent=None,
                    child=name,
                    parent_pose=self._pose(node),
                    implicit=True,
                )
                self.robot.joints.append(held)

    def _add_frame(self, node: FrameNode) -> None:
        """A frame, or the own frame of a nested model with what else that model says."""
        body = self.graph.body(node)
        link = None if body is None else self.names.get(id(body))
        frame = Frame(
            name=self._name(node),
            name_is_generated=node.element.name_is_generated,
            origin=node.element.origin,
            link=link,
            pose=self._pose(node) if body is None or link is None else self.graph.relative(node, body),
            extras=node.element.extras[:],
            attributes=prefixed(node.element.settings),
        )
        element = node.element
        if isinstance(element, ModelElement):
            if node.kind is FrameKind.MODEL:
                frame.name += SCOPE + MODEL_FRAME
            frame.attributes |= {sdf.key(sdf.MODEL): element.name, sdf.key(sdf.STATIC): element.static}
            frame.attributes |= {sdf.key(sdf.VERSION): str(element.version), sdf.key(sdf.MERGED): element.merged}
        if node.scope.is_world:
            frame.attributes[sdf.key(sdf.SCOPE)] = WORLD
        self.robot.frames.append(frame)

    def _choose_root(self) -> None:
        """A declared canonical link is the root unless some joint carries it: the tree follows the joints."""
        robot = self.robot
        model = self.models[0]
        declared = self.graph.body(model) if _model(model).canonical_link and len(self.models) == 1 else None
        name = None if declared is None else self.names.get(id(declared))
        if name is not None and all(j.child != name for j in robot.joints):
            robot.root = name
        if robot.static:
            robot.base = Base.FIXED
        else:
            unsaid = _model(model).base == Base.UNSPECIFIED.value
            free = Base.UNSPECIFIED if unsaid else Base.FREE
            robot.base = free if robot.tree().roots else Base.FIXED

    def _error(self, code: str, problem: str, element: JointElement, hint: str = "") -> None:
        self.diagnostics.error(f"{sdf.FORMAT}.{code}", problem, hint=hint, origin=element.origin)


def _model(node: FrameNode) -> ModelElement:
    assert isinstance(node.element, ModelElement)
    return node.element
