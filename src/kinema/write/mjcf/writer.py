"""Composition of an MJCF document: order of the steps, compiler and option elements, and bodies with their contents."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Pose
from kinema.description import FLAG_DEFAULTS, OPTION_DEFAULTS, OPTIONS_WITHOUT_DEFAULT, Base, Link, Robot, World
from kinema.tokens import WriteOptions, mjcf

from ..files import stage_files
from ..loss_report import LossReport
from ..mesh_files import MeshStore
from ..xml_document import Element, format_number, format_numbers, to_xml
from .actuation import write_actuators, write_drives, write_tendons
from .assets import MESH_SUFFIXES, MaterialAssets, MeshAssets
from .attributes import NameRegistry, pose_attributes, sanitize_name, text_unless_default, trimmed_text
from .bodies import build_body_tree, drop_sleep_of_coupled_trees, is_inferred_from_geoms, sleep_policy, write_inertial
from .collision_filters import parents_collide, write_collision_filters
from .context import MjcfBody, MjcfContext, MjcfDocument
from .defaults import write_defaults
from .equalities import add_loop_bodies, write_constraints, write_loop_constraints
from .extras import (
    asset_name,
    plugin_elements,
    report_unwritten,
    write_textures,
    write_unused_assets,
    write_verbatim_sections,
)
from .geoms import write_geoms
from .joints import write_joints
from .keyframes import write_keyframes
from .sensors import write_sensors
from .sites import write_sites_cameras_lights

# --------------------------------------------------------------------------------------------------- simulation options

_DEFAULT_GRAVITY = (0.0, 0.0, -9.81)
SPECULATIVE = "speculative"
"""Flag of contacts that are found along the motion of bodies in a step."""
_OPTION_KEYWORDS = {
    "integrator": {"euler": "Euler", "rk4": "RK4"},
    "jacobian": {},
    "cone": {},
    "solver": {"pgs": "PGS", "cg": "CG", "newton": "Newton"},
}


def write_options(ctx: MjcfContext) -> None:
    """Write time step, integrator and non-default options, gravity and flags to `<option>`; reports unknown options."""
    element = ctx.section(mjcf.OPTION)
    whole = ctx.description
    table = whole.options
    flags: Mapping[str, bool] = ctx.use_setting(table, mjcf.FLAGS, {})
    for name, default in OPTION_DEFAULTS.items():
        if name in table:
            value = ctx.use_setting(table, name)
            if name in _OPTION_KEYWORDS:
                value = str(value).lower()
            if value != default or name in OPTIONS_WITHOUT_DEFAULT:
                element.set_attributes({name: _option_text(name, value)})
    if whole.gravity is not None and not (flags.get("gravity") is False and not whole.gravity.any()):
        gravity = np.asarray(whole.gravity, dtype=np.float64)
        if tuple(gravity.tolist()) != _DEFAULT_GRAVITY:
            element.set_attributes({"gravity": format_numbers(gravity.tolist())})
    _set_disabled_actuator_groups(ctx, table, element)
    _write_flags(ctx, flags, element)
    for name in ctx.unused_settings(table):
        ctx.report_dropped(("option", name), f"the option {name!r}", "MuJoCo has none of that name")
    for robot in ctx.robots:
        if robot is not whole and (robot.options or robot.gravity is not None):
            ctx.report_dropped(robot, "its gravity and options", "MuJoCo has one set for all; the world's are written")


def _option_text(name: str, value: Any) -> str:
    if name in _OPTION_KEYWORDS:
        return _OPTION_KEYWORDS[name].get(value, value)
    if isinstance(value, tuple | list):
        return format_numbers(value)
    return str(value) if isinstance(value, int) else format_number(float(value))


def _set_disabled_actuator_groups(ctx: MjcfContext, table: Mapping[str, Any], element: Element) -> None:
    bits = int(ctx.use_setting(table, mjcf.DISABLEACTUATOR, 0))
    if bits:
        element.set_attributes({"actuatorgroupdisable": " ".join(str(i) for i in range(31) if bits >> i & 1)})


def _write_flags(ctx: MjcfContext, flags: Mapping[str, bool], element: Element) -> None:
    given = dict(flags)
    given["filterparent"] = not parents_collide(ctx)
    if not given.get(SPECULATIVE):
        for link in (link for robot in ctx.robots for link in robot.links if link.continuous_collision):
            how = "the flag speculative applies to all bodies"
            ctx.report_approximated(link, "that its contacts are found along its motion", how)
            given[SPECULATIVE] = True
    changed = {name: on for name, on in given.items() if on != FLAG_DEFAULTS.get(name, True)}
    if changed:
        flag = element.add_child("flag")
        flag.set_attributes({name: "enable" if on else "disable" for name, on in changed.items()})


# ------------------------------------------------------------------------------------------------------------- document


def write_mjcf(description: Robot | World, path: Path, report: LossReport, options: WriteOptions) -> None:
    """Write a robot or a world to an MJCF file, with meshes and textures in folders beside it.

    Args:
        description: the robot or world.
        path: the output file.
        report: receives the losses.
        options: writer options.

    Raises:
        WriteError: nothing was written.
    """
    with stage_files(path) as draft:
        writing = compose_document(description, report, options, draft)
        text = to_xml(writing.document.root(sanitize_name(description.name)), declaration=False)
        (draft / path.name).write_text(text, encoding="utf-8")


def compose_document(
    description: Robot | World, report: LossReport, options: WriteOptions, staging_folder: Path
) -> MjcfContext:
    """Compose the MJCF document in a context; mesh and texture files are created in the staging folder."""
    document = MjcfDocument()
    names = NameRegistry(has_multiple_robots=isinstance(description, World) and len(description.robots) > 1)
    store = MeshStore(staging_folder, MESH_SUFFIXES, options.file_mesh_mode, keeps_vertex_attributes=True)
    meshes = MeshAssets(store, document.section(mjcf.ASSET), names)
    writing = MjcfContext(description, report, options, document, names, meshes, MaterialAssets(store.textures))
    every = [*writing.static_shapes, *(s for link in description.links for s in link.shapes)]
    counts = Counter(shape.name for shape in every if not shape.name_is_generated)
    writing.duplicate_shape_names = frozenset(name for name, count in counts.items() if count > 1)
    with np.errstate(invalid="ignore", over="ignore"):  # numbers that are none are met one by one, and reported
        _write_sections(writing)
    return writing


def _write_sections(ctx: MjcfContext) -> None:
    """Write all sections; every step depends on the results of the steps before."""
    write_textures(ctx)
    build_body_tree(ctx)
    add_loop_bodies(ctx)
    world = ctx.section(mjcf.WORLDBODY)
    write_geoms(ctx, ctx.static_shapes, None, ctx.description, world)
    for body in ctx.root_bodies:
        _write_body(ctx, body, world)
    _prevent_inferred_masses(ctx)
    write_collision_filters(ctx)
    write_sites_cameras_lights(ctx)
    write_tendons(ctx)
    write_actuators(ctx)
    targets = write_drives(ctx)
    write_constraints(ctx)
    write_loop_constraints(ctx)
    write_unused_assets(ctx)
    write_sensors(ctx)
    write_keyframes(ctx, targets)
    write_options(ctx)
    write_verbatim_sections(ctx)
    _write_base_notes(ctx)
    _write_compiler(ctx)
    _sort_assets(ctx)
    _report_losses(ctx)
    write_defaults(ctx)
    ctx.names.write_names()
    drop_sleep_of_coupled_trees(ctx)


def _write_compiler(ctx: MjcfContext) -> None:
    """Write the `<compiler>` element: radians, automatic limits, mesh folder."""
    element = ctx.section(mjcf.COMPILER)
    sections = [ctx.section(mjcf.ASSET), *(e for e in ctx.document.verbatim_sections if e.tag == mjcf.DEFORMABLE)]
    assets = {child.tag for section in sections for child in section.children if isinstance(child, Element)}
    has_files = bool(assets & {mjcf.MESH, mjcf.HFIELD, mjcf.SKIN})
    element.attributes = {
        "angle": "radian",
        "autolimits": "true",
        **({"meshdir": "meshes"} if has_files else {}),
        **element.attributes,
    }


def _write_base_notes(ctx: MjcfContext) -> None:
    """Write custom texts for Kinema's reader that name root links with unspecified base."""
    notes = Element(mjcf.CUSTOM)
    for link in ctx.unspecified_roots:
        notes.add_child(
            "text", name=mjcf.BASE_TEXT_PREFIX + ctx.names.name_of(mjcf.BODY, link), data=Base.UNSPECIFIED.value
        )
    if notes.children:
        ctx.document.verbatim_sections.append(notes)


def _sort_assets(ctx: MjcfContext) -> None:
    """Sort assets by type and source order, so that MuJoCo assigns the same ids as for the source."""
    known = ctx.use_attribute(ctx.description, mjcf.ASSETS, {})
    place = {(kind, name): i for kind, names in known.items() for i, name in enumerate(names)}

    def key(asset: object) -> tuple[int, float]:
        tag = asset.tag if isinstance(asset, Element) else ""
        own = asset_name(asset) if isinstance(asset, Element) else ""
        kinds = mjcf.ASSET_ORDER
        return kinds.index(tag) if tag in kinds else len(kinds), place.get((tag, own), math.inf)

    ctx.section(mjcf.ASSET).children.sort(key=key)


# --------------------------------------------------------------------------------------------------------------- bodies


def _write_body(ctx: MjcfContext, body: MjcfBody, parent: Element) -> None:
    """Write a body with inertial, joints, geoms, plugins and child bodies."""
    element = parent.add_child(mjcf.BODY)
    body.element = element
    if not body.pose.is_finite:
        node = body.link if body.link is not None else body.robot
        ctx.report_approximated(node, "its pose", "its numbers are none; it is written where its parent is")
        body.pose = Pose()
    element.set_attributes(pose_attributes(body.pose))
    if body.name:
        element.attributes = {"name": body.name, **element.attributes}
    if body.mocap:
        element.set_attributes({"mocap": "true"})
    if body.link is not None:
        _set_link_attributes(ctx, body, body.link, element)
        ctx.names.by_node[mjcf.BODY, id(body.link)].element = element
    inertial = Element(mjcf.BODY)
    write_joints(ctx, body, element)
    if body.link is not None:
        write_geoms(ctx, body.link.shapes, body, body.robot, element)
        element.children += plugin_elements(ctx, body.link)
    write_inertial(ctx, body, inertial)  # which has to know the geoms, but comes first
    element.children[:0] = inertial.children
    for child in body.children:
        _write_body(ctx, child, element)


def _set_link_attributes(ctx: MjcfContext, body: MjcfBody, link: Link, element: Element) -> None:
    """Set childclass, gravity compensation, sleep policy and user data of a body."""
    user = ctx.use_attribute(link, mjcf.USER)
    element.set_attributes(
        {
            "childclass": ctx.use_attribute(link, mjcf.CHILDCLASS, "") or None,
            "gravcomp": text_unless_default(1.0 - link.gravity_scale),
            "sleep": sleep_policy(ctx, body, link),
            "user": None if user is None else trimmed_text(user),
        }
    )
    if not link.enabled:
        ctx.report_dropped(link, "that it is switched off", "bodies of MuJoCo's are always on")
    if link.density is not None:
        ctx.report_dropped(link, "its density", "the mass that follows from it is written")


def _prevent_inferred_masses(ctx: MjcfContext) -> None:
    """Prevent MuJoCo from inferring masses of massless bodies from their geoms."""
    links = [body.link for body in ctx.bodies_by_link.values() if body.link is not None]
    weightless = [link for link in links if link.inertial is None and any(id(s) in ctx.geoms for s in link.shapes)]
    if not weightless:
        return
    if not any(is_inferred_from_geoms(ctx, link) for link in links):
        ctx.section(mjcf.COMPILER).set_attributes({"inertiafromgeom": "false"})
        return
    for shape in (s for link in weightless for s in link.shapes):
        element = ctx.geoms.get(id(shape))
        if element is not None:
            element.attributes.pop("density", None)
            element.set_attributes({"mass": format_number(0.0)})


# ------------------------------------------------------------------------------------------------- unsupported elements


def _report_losses(ctx: MjcfContext) -> None:
    """Report renamed elements, robot names and unwritten attributes."""
    for entry in ctx.names.renamed():
        how = f"it is called {entry.written_name!r} in the file"
        ctx.report_approximated(entry.node, "its name", how)
    if isinstance(ctx.description, World):
        _report_robot_names(ctx, ctx.description)
    report_unwritten(ctx)


def _report_robot_names(ctx: MjcfContext, world: World) -> None:
    """Report robot names that MJCF cannot represent: it implies the model name or the first body's name."""
    for robot in world.robots:
        first = robot.links[0].name if robot.links else ""
        implied = world.name if len(world.robots) == 1 else first
        if robot.name != implied and not robot.name_is_generated:
            ctx.report_dropped(robot, "its name", f"MJCF has no robots in a world; its bodies begin with {first!r}")
        if not robot.links:
            ctx.report_dropped(robot, "the robot", "it has no links")
