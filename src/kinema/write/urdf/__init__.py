"""URDF 1.0 (1.1 and 1.2 on request): one tree of links and joints."""

from __future__ import annotations

from pathlib import Path

from kinema.description import Link, Robot, World
from kinema.foundation import Pose
from kinema.words import urdf

from ..files import errors_of, staging
from ..meshes import MeshStore
from ..report import LossReport
from ..text import Element, number, to_xml, xml_name
from .choose import choose_robot
from .extras import give_back
from .followers import resolve_followers
from .joints import add_joint
from .losses import report_assembly, report_losses
from .lower import Lowered as Lowered, lower
from .materials import Materials
from .pairs import report_pairs
from .placing import add_origin
from .shapes import VISUAL_SUFFIXES, ShapeWriter
from .writing import UrdfOptions as UrdfOptions, Writing, check_options, finite

_WORLD = "world"
_DRAKE = "http://drake.mit.edu"


def write_urdf(described: Robot | World, path: Path, report: LossReport, options: UrdfOptions | None = None) -> None:
    """Write a robot, or the one robot of a world, as URDF.

    Args:
        described: what to write.
        path: the file; meshes and textures go into folders beside it.
        report: where to put on record what URDF cannot say.
        options: how to write it.

    Raises:
        WriteError: nothing was written.
    """
    options = options or UrdfOptions()
    check_options(options, path)
    with errors_of(path):
        robot = choose_robot(described, options.robot, report)
        with staging(path) as draft:
            meshes = MeshStore(draft, VISUAL_SUFFIXES, options.files, kind=options.mesh_format)
            writing = Writing(robot, options, report, meshes)
            text = to_xml(_robot(writing, described))
            (draft / path.name).write_text(text, encoding="utf-8")


def _robot(writing: Writing, described: Robot | World) -> Element:
    robot = writing.robot
    lowered = lower(writing)
    said = resolve_followers(writing, lowered)
    _name_links(writing, lowered)
    for joint in lowered.robot.joints:
        writing.joints.add(joint.name)
    root = Element("robot", {"name": xml_name(robot.name) or "robot"})
    if writing.version != "1.0" or urdf.VERSION in robot.attributes:
        root.set({"version": writing.version})
    give_back(writing, robot, root, root)
    _parts(writing, lowered, root)
    if root.attributes["name"] != robot.name:
        writing.approximate(robot, "its name", f'it is called "{root.attributes["name"]}"')
    for mesh, name, why in writing.meshes.left_behind:
        writing.drop(("mesh", mesh), f"the file {name!r} that it refers to", why)
    for material, what, why in writing.meshes.unsaid:
        writing.drop(("material", material), what, why)
    for material, what, how in writing.meshes.approximated:
        writing.approximate(("material", material), what, how)
    report_losses(writing, lowered, said)
    if isinstance(described, World):
        report_assembly(writing, described, set())
        give_back(writing, described, None, root)
    report_pairs(writing, lowered, described)
    return root


def _name_links(writing: Writing, lowered: Lowered) -> None:
    """Names for all links. What is called `world` is the world for MuJoCo, which refuses joints that move it."""
    moves = any(joint.child == _WORLD for joint in lowered.robot.joints)
    if moves and writing.robot.format != urdf.FORMAT:
        writing.links.taken.add(_WORLD)
        if lowered.world:
            writing.links.given[lowered.world] = _WORLD
    for link in lowered.robot.links:
        if link.name not in writing.links:
            writing.links.add(link.name)


def _parts(writing: Writing, lowered: Lowered, root: Element) -> None:
    """Materials, links and joints, and how MuJoCo finds the meshes."""
    materials = Element("robot")
    shapes = ShapeWriter(writing, Materials(writing, materials), root)
    links = [_link(writing, shapes, root, link) for link in lowered.robot.links]
    kept, root.children = root.children, [*materials.children, *links]
    for joint in lowered.robot.joints:
        add_joint(writing, root, joint)
    root.children += kept
    if shapes.uses_drake and "xmlns:drake" not in root.attributes:
        root.set({"xmlns:drake": _DRAKE})
    if shapes.has_relative_meshes and not any(e.tag == "mujoco" for e in writing.robot.extras):
        # MuJoCo alone looks for meshes by their bare file names
        root.child("mujoco").child("compiler", strippath="false")


def _link(writing: Writing, shapes: ShapeWriter, root: Element, link: Link) -> Element:
    element = Element("link", {"name": writing.links[link.name]})
    inertial = link.inertial
    if inertial is not None:
        owner = f'link "{link.name}"'
        made = element.child("inertial")
        add_origin(made, Pose(inertial.center), owner)
        made.child("mass", value=number(finite(inertial.mass, owner, "mass")))
        tensor = (inertial.inertia + inertial.inertia.T) / 2
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = tensor.tolist()
        moments = {"ixx": xx, "ixy": xy, "ixz": xz, "iyy": yy, "iyz": yz, "izz": zz}
        made.child("inertia").set({name: number(finite(v, owner, "inertia")) for name, v in moments.items()})
    for shape in link.shapes:
        shapes.add(element, link, shape)
    give_back(writing, link, element, root)
    return element


def describe_in_urdf(robot: Robot, options: UrdfOptions | None = None) -> Lowered:
    """The robot as the file will have it, and which of its joints stand for which of the description's."""
    store = MeshStore(Path(), VISUAL_SUFFIXES)
    writing = Writing(robot, options or UrdfOptions(), LossReport(urdf.FORMAT), store)
    lowered = lower(writing)
    resolve_followers(writing, lowered)
    return lowered
