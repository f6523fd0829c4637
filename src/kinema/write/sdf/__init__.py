"""SDFormat 1.9, or 1.11 where something needs it: models and worlds, any graph of links and joints."""

from __future__ import annotations

from pathlib import Path

from kinema.description import Robot, World
from kinema.words import sdf

from ..files import errors_of, staging
from ..meshes import MeshStore
from ..report import LossReport
from ..text import Element, to_xml
from .geometry import SUFFIXES
from .losses import report_pairs
from .lower import lower
from .lowered import Lowered as Lowered
from .model import add_model, model_name, needs_new_version
from .world import add_world, scenery_of
from .writing import SdfOptions as SdfOptions, Writing, checked, choose_version


def write_sdf(described: Robot | World, path: Path, report: LossReport, options: SdfOptions | None = None) -> None:
    """Write a robot as a model, or a world.

    Args:
        described: what to write.
        path: the file; meshes and textures go into folders beside it.
        report: where to put on record what SDFormat cannot say.
        options: how to write it.

    Raises:
        WriteError: nothing was written.
    """
    options = checked(options or SdfOptions(), path)
    with errors_of(path), staging(path) as draft:
        meshes = MeshStore(draft, SUFFIXES, options.meshes, kind=options.mesh_format)
        writing = Writing(options, report, meshes, source=described.format)
        text = to_xml(_document(writing, described))
        (draft / path.name).write_text(text, encoding="utf-8")


def _document(writing: Writing, described: Robot | World) -> Element:
    models = [(robot, lower(writing, robot)) for robot in _robots(writing, described)]
    lowered = [made for _, made in models]
    writing.version = choose_version(described, writing.options, lambda: needs_new_version(lowered))
    masks = _has_masks([robot for robot, _ in models])
    root = Element(sdf.FORMAT, {"version": writing.version})
    if any(x.base_is_unspecified or any(j.initial is not None for j in x.robot.joints) for x in lowered):
        root.set(sdf.OWN_NAMESPACE)
    if isinstance(described, World):
        add_world(writing, root, described, models, masks=masks)
    else:
        robot, made = models[0]
        name = model_name(robot, {"world"})
        if robot.name and name != robot.name:
            writing.approximate(robot, "its name", f'it is called "{name}"')
        add_model(writing, root, robot, made, name, masks=masks)
    scenery = int(isinstance(described, World) and bool(described.shapes))  # it comes last
    report_pairs(writing, described, [x.robot for x in lowered[: len(lowered) - scenery]])
    for mesh, file, why in writing.meshes.left_behind:
        writing.drop(("mesh", mesh), f"the file {file!r} that it refers to", why)
    for material, what, why in writing.meshes.unsaid:
        writing.drop(("material", material), what, why)
    for material, what, how in writing.meshes.approximated:
        writing.approximate(("material", material), what, how)
    return root


def _robots(writing: Writing, described: Robot | World) -> list[Robot]:
    """What becomes a model."""
    if isinstance(described, Robot):
        return [described]
    robots: list[Robot] = []
    for robot in described.robots:
        if robot.links:
            robots.append(robot)
        else:
            writing.drop(robot, "the robot", "it has no links, and SDFormat needs one")
    scenery = scenery_of(described)
    return robots if scenery is None else [*robots, scenery]


def _has_masks(robots: list[Robot]) -> bool:
    """Whether a shape collides with some others only: then every shape has to say with which."""
    shapes = (s for r in robots for link in r.links for s in link.shapes if s.collision and s.enabled)
    return any((s.contype, s.conaffinity) != (1, 1) for s in shapes)


def describe_in_sdf(robot: Robot, options: SdfOptions | None = None) -> Lowered:
    """The robot as the file will have it, and which of its joints stand for which of the description's."""
    return lower(Writing(options or SdfOptions(), LossReport(sdf.FORMAT), MeshStore(Path(), SUFFIXES)), robot)
