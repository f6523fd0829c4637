"""A robot to `<model>`."""

from __future__ import annotations

from kinema.description import Base, Cone, Robot
from kinema.foundation import WriteError, unique_name
from kinema.words import sdf

from ..text import Element
from .extras import give_back, setting
from .joints import add_gear, add_joint
from .links import add_link
from .losses import report_robot
from .lowered import Lowered
from .sensing import Mounted, add_frame
from .writing import Names, Writing, add_pose, flag, sdf_name


def needs_new_version(lowered: list[Lowered]) -> bool:
    """Whether something is in it that only newer versions can say: a mimic, a cone."""
    robots = [x.robot for x in lowered]
    mimics = any(a.mimic is not None for r in robots for j in r.joints for a in j.axes)
    return mimics or any(isinstance(s.geometry, Cone) and s.enabled for r in robots for x in r.links for s in x.shapes)


def add_model(writing: Writing, holder: Element, robot: Robot, lowered: Lowered, name: str, *, masks: bool) -> None:
    """The `<model>` of a robot."""
    made = lowered.robot
    if not made.links:
        raise WriteError(f'robot "{robot.name}" has no links, and SDFormat needs one')
    _without_mimics(writing, lowered)
    model = holder.child("model", name=name)
    names = _names(lowered)
    root = robot.root or setting(robot, sdf.CANONICAL_LINK)
    if isinstance(root, str) and root in names.links:
        model.set({"canonical_link": names.links[root]})
    if writing.has("1.12") and isinstance(setting(robot, sdf.NAMESPACE), str):
        model.set({"namespace": str(setting(robot, sdf.NAMESPACE))})
    add_pose(model, robot.pose, f'robot "{robot.name}"')
    if robot.static:
        model.child("static", "true")
    model.child("self_collide", flag(robot.collision.self_collide))
    if lowered.base_is_unspecified:
        model.child(sdf.OWN_BASE, Base.UNSPECIFIED.value)
    links = {link.name: add_link(writing, model, link, names.links[link.name], with_masks=masks) for link in made.links}
    joints = {joint.name: add_joint(writing, names, model, joint) for joint in made.joints}
    poses = {link.name: link.pose for link in made.links if link.pose is not None}
    for constraint in made.constraints:
        joints[constraint.name] = add_gear(writing, names, model, constraint, poses)
    for frame, written in zip(robot.frames, _frame_names(names, robot), strict=True):
        add_frame(writing, model, frame, written, names)
    by_source = {source: joints[parts[-1]] for source, parts in lowered.chains.items()}
    Mounted(writing, links, {**joints, **by_source}).add(robot)
    said = [sdf.VERSION, sdf.CANONICAL_LINK, *([sdf.NAMESPACE] if writing.has("1.12") else [])]
    give_back(writing, robot, model, said=said, simple=sdf.MODEL_FLAGS)
    for kind, table in (("link", names.links), ("joint", names.joints), ("constraint", names.constraints)):
        writing.renamed(kind, table)
    writing.renamed("frame", names.frames)
    report_robot(writing, robot)


def _names(lowered: Lowered) -> Names:
    names = Names()
    for link in lowered.robot.links:
        names.links.add(link.name)
    for joint in lowered.robot.joints:
        names.joints.add(joint.name)
    for constraint in lowered.robot.constraints:
        names.constraints.add(constraint.name)
    return names


def _frame_names(names: Names, robot: Robot) -> list[str]:
    return [names.frames.add(frame.name or "frame") for frame in robot.frames]


def _without_mimics(writing: Writing, lowered: Lowered) -> None:
    if writing.has("1.11"):
        return
    for joint in lowered.robot.joints:
        for axis in joint.axes:
            if axis.mimic is not None:
                source = lowered.source_of.get(joint.name, joint)
                writing.drop(source, f'that it follows "{axis.mimic.joint}"', "SDFormat has it since 1.11")
                axis.mimic = None


def model_name(robot: Robot, taken: set[str]) -> str:
    """The name of the robot's model."""
    return unique_name(sdf_name(robot.name) or "robot", taken)
