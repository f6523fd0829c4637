"""URDF writer: version 1.0 (1.1 and 1.2 on request), one tree of links and joints."""

from __future__ import annotations

from pathlib import Path

from kinema.core import Pose
from kinema.description import Link, Robot, World
from kinema.tokens import WriteOptions, urdf

from ..files import errors_with_path, stage_files
from ..loss_report import LossReport
from ..mesh_files import MeshStore
from ..validation import check_options
from ..xml_document import Element, format_number, to_xml, xml_safe_name
from .context import (
    VERSIONS,
    UrdfContext,
    add_origin,
    choose_robot,
    require_finite,
    write_preserved,
)
from .joints import add_joint
from .losses import report_assembly_losses, report_collision_differences, report_losses
from .lowering import LoweredUrdfRobot as LoweredUrdfRobot, lower_to_urdf, resolve_mimics
from .shapes import VISUAL_SUFFIXES, ShapeWriter, UrdfMaterials

_WORLD_LINK = "world"
_DRAKE_NAMESPACE = "http://drake.mit.edu"


def write_urdf(description: Robot | World, path: Path, report: LossReport, options: WriteOptions) -> None:
    """Write a robot, or one robot of a world, as URDF.

    Args:
        description: the robot or world.
        path: the output file; meshes and textures are placed in folders beside it.
        report: receives the losses.
        options: writer options.

    Raises:
        WriteError: nothing was written.
    """
    check_options(options, path, VERSIONS)
    with errors_with_path(path):
        robot = choose_robot(description, options.robot, report)
        with stage_files(path) as draft:
            meshes = MeshStore(draft, VISUAL_SUFFIXES, options.file_mesh_mode, visual_format=options.mesh_format)
            writing = UrdfContext(robot, options, report, meshes)
            text = to_xml(_robot_element(writing, description))
            (draft / path.name).write_text(text, encoding="utf-8")


def _robot_element(ctx: UrdfContext, description: Robot | World) -> Element:
    """Lower the robot and compose the `<robot>` element; reports all losses."""
    robot = ctx.robot
    lowered = lower_to_urdf(ctx)
    said = resolve_mimics(ctx, lowered)
    _register_link_names(ctx, lowered)
    for joint in lowered.robot.joints:
        ctx.joints.add(joint.name)
    root = Element("robot", {"name": xml_safe_name(robot.name) or "robot"})
    if ctx.version != "1.0" or urdf.VERSION in robot.attributes:
        root.set_attributes({"version": ctx.version})
    write_preserved(ctx, robot, root, root)
    _write_links_and_joints(ctx, lowered, root)
    if root.attributes["name"] != robot.name:
        ctx.report_approximated(robot, "its name", f'it is called "{root.attributes["name"]}"')
    ctx.meshes.report_losses(ctx)
    report_losses(ctx, lowered, said)
    if isinstance(description, World):
        report_assembly_losses(ctx, description, set())
        write_preserved(ctx, description, None, root)
    report_collision_differences(ctx, lowered, description)
    return root


def _register_link_names(ctx: UrdfContext, lowered: LoweredUrdfRobot) -> None:
    """Register unique names of all links; a moving link is not called `world`, which MuJoCo treats as the world."""
    moves = any(joint.child == _WORLD_LINK for joint in lowered.robot.joints)
    if moves and ctx.robot.format != urdf.FORMAT:
        ctx.links.taken_names.add(_WORLD_LINK)
        if lowered.world_link:
            ctx.links.written_names[lowered.world_link] = _WORLD_LINK
    for link in lowered.robot.links:
        if link.name not in ctx.links:
            ctx.links.add(link.name)


def _write_links_and_joints(ctx: UrdfContext, lowered: LoweredUrdfRobot, root: Element) -> None:
    """Write materials, links and joints, and the MuJoCo compiler option for relative mesh paths."""
    materials = Element("robot")
    shapes = ShapeWriter(ctx, UrdfMaterials(ctx, materials), root)
    links = [_link_element(ctx, shapes, root, link) for link in lowered.robot.links]
    kept, root.children = root.children, [*materials.children, *links]
    for joint in lowered.robot.joints:
        add_joint(ctx, root, joint)
    root.children += kept
    if shapes.uses_drake and "xmlns:drake" not in root.attributes:
        root.set_attributes({"xmlns:drake": _DRAKE_NAMESPACE})
    if shapes.has_relative_meshes and not any(e.tag == "mujoco" for e in ctx.robot.extras):
        # MuJoCo alone looks for meshes by their bare file names
        root.add_child("mujoco").add_child("compiler", strippath="false")


def _link_element(ctx: UrdfContext, shape_writer: ShapeWriter, root: Element, link: Link) -> Element:
    """Element of a link with inertial, visuals and collisions."""
    element = Element("link", {"name": ctx.links[link.name]})
    inertial = link.inertial
    if inertial is not None:
        owner = f'link "{link.name}"'
        made = element.add_child("inertial")
        add_origin(made, Pose(inertial.center), owner)
        made.add_child("mass", value=format_number(require_finite(inertial.mass, owner, "mass")))
        tensor = (inertial.inertia + inertial.inertia.T) / 2
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = tensor.tolist()
        moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
        made.add_child("inertia").set_attributes(
            {name: format_number(require_finite(v, owner, "inertia")) for name, v in moments.items()}
        )
    for shape in link.shapes:
        shape_writer.add_shape(element, link, shape)
    write_preserved(ctx, link, element, root)
    return element


def preview_lowering(robot: Robot, options: WriteOptions | None = None) -> LoweredUrdfRobot:
    """Lower a robot to URDF without writing a file.

    Returns:
        The lowered robot and the correspondence of its joints to the description.
    """
    store = MeshStore(Path(), VISUAL_SUFFIXES)
    writing = UrdfContext(robot, options or WriteOptions(), LossReport(urdf.FORMAT), store)
    lowered = lower_to_urdf(writing)
    resolve_mimics(writing, lowered)
    return lowered
