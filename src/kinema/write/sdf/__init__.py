"""SDFormat writer: version 1.9, or 1.11 where necessary; models and worlds."""

from __future__ import annotations

from pathlib import Path

from kinema.description import Robot, World
from kinema.tokens import WriteOptions, sdf

from ..files import errors_with_path, stage_files
from ..loss_report import LossReport
from ..mesh_files import MeshStore
from ..validation import check_options
from ..xml_document import Element, to_xml
from .context import VERSIONS, SdfContext, choose_version
from .lowering import LoweredSdfRobot as LoweredSdfRobot, lower_to_sdf
from .model import (
    add_model,
    add_world,
    needs_mimic_version,
    report_collision_differences,
    static_shapes_robot,
    unique_model_name,
)
from .shapes import MESH_SUFFIXES


def write_sdf(description: Robot | World, path: Path, report: LossReport, options: WriteOptions) -> None:
    """Write a robot as an SDFormat model, or a world.

    Args:
        description: the robot or world.
        path: the output file; meshes and textures are placed in folders beside it.
        report: receives the losses.
        options: writer options.

    Raises:
        WriteError: nothing was written.
    """
    check_options(options, path, VERSIONS)
    with errors_with_path(path), stage_files(path) as draft:
        meshes = MeshStore(draft, MESH_SUFFIXES, options.file_mesh_mode, visual_format=options.mesh_format)
        writing = SdfContext(options, report, meshes, source_format=description.format)
        text = to_xml(_build_document(writing, description))
        (draft / path.name).write_text(text, encoding="utf-8")


def _build_document(ctx: SdfContext, description: Robot | World) -> Element:
    """Lower all robots and compose the `<sdf>` element; reports all losses."""
    models = [(robot, lower_to_sdf(ctx, robot)) for robot in _model_robots(ctx, description)]
    lowered = [made for _, made in models]
    ctx.version = choose_version(description, ctx.options, lambda: needs_mimic_version(lowered))
    masks = _uses_collision_masks([robot for robot, _ in models])
    root = Element(sdf.FORMAT, {"version": ctx.version})
    if any(x.base_is_unspecified or any(j.initial is not None for j in x.robot.joints) for x in lowered):
        root.set_attributes(sdf.KINEMA_NAMESPACE)
    if isinstance(description, World):
        add_world(ctx, root, description, models, with_masks=masks)
    else:
        robot, made = models[0]
        name = unique_model_name(robot, {"world"})
        if robot.name and name != robot.name:
            ctx.report_approximated(robot, "its name", f'it is called "{name}"')
        add_model(ctx, root, robot, made, name, with_masks=masks)
    scenery = int(isinstance(description, World) and bool(description.shapes))  # it comes last
    report_collision_differences(ctx, description, [x.robot for x in lowered[: len(lowered) - scenery]])
    ctx.meshes.report_losses(ctx)
    return root


def _model_robots(ctx: SdfContext, description: Robot | World) -> list[Robot]:
    """Robots that become models: those with links, and a static one for the shapes of the world."""
    if isinstance(description, Robot):
        return [description]
    robots: list[Robot] = []
    for robot in description.robots:
        if robot.links:
            robots.append(robot)
        else:
            ctx.report_dropped(robot, "the robot", "it has no links, and SDFormat needs one")
    scenery = static_shapes_robot(description)
    return robots if scenery is None else [*robots, scenery]


def _uses_collision_masks(robots: list[Robot]) -> bool:
    """Whether any collision shape has non-default masks, so that all shapes need bit masks."""
    shapes = (s for r in robots for link in r.links for s in link.shapes if s.collision and s.enabled)
    return any((s.contype, s.conaffinity) != (1, 1) for s in shapes)


def preview_lowering(robot: Robot, options: WriteOptions | None = None) -> LoweredSdfRobot:
    """Lower a robot to SDFormat without writing a file.

    Returns:
        The lowered robot and the correspondence of its joints to the description.
    """
    return lower_to_sdf(
        SdfContext(options or WriteOptions(), LossReport(sdf.FORMAT), MeshStore(Path(), MESH_SUFFIXES)), robot
    )
