"""The story of writing an MJCF file."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np

from kinema.description import Base, Link, Robot, World
from kinema.foundation import Pose
from kinema.words import mjcf

from ..files import staging
from ..meshes import MeshStore
from ..report import LossReport
from ..text import Element, number, to_xml
from .actuators import write_actuators
from .bodies import plan_bodies
from .body_plan import BodyPlan
from .collisions import write_collisions
from .defaults import write_defaults
from .drives import write_drives
from .equalities import write_constraints
from .extras import asset_name, plugins, report_leftovers, write_extras, write_textures
from .geoms import write_geoms
from .inertia import comes_from_geoms, write_inertial
from .joints import write_joints
from .keyframes import write_keyframes
from .loops import plan_loops, write_loops
from .material_assets import MaterialAssets
from .meshes import SUFFIXES, MeshAssets
from .names import Names, clean
from .numbers import pose_attributes, text_or_none, trimmed
from .options import write_options
from .scenery import write_scenery
from .sensors import write_sensors
from .sleeping import keep_tied_trees_awake, sleep_of
from .tendons import write_tendons
from .writing import Document, MjcfOptions, Writing


def write_mjcf(described: Robot | World, path: Path, report: LossReport, options: MjcfOptions | None = None) -> None:
    """Write a robot or a world to an MJCF file, with its meshes and textures in folders beside it.

    Args:
        described: what to write.
        path: the file.
        report: where to put what MJCF cannot say.
        options: how to write it.

    Raises:
        WriteError: nothing was written.
    """
    with staging(path) as draft:
        writing = compose(described, report, MjcfOptions() if options is None else options, draft)
        text = to_xml(writing.document.root(clean(described.name)), declaration=False)
        (draft / path.name).write_text(text, encoding="utf-8")


def compose(described: Robot | World, report: LossReport, options: MjcfOptions, draft: Path) -> Writing:
    """The document, with its mesh and texture files made in the draft's folders."""
    document = Document()
    names = Names(several_robots=isinstance(described, World) and len(described.robots) > 1)
    store = MeshStore(draft, SUFFIXES, options.meshes, keeps_layers=True)
    meshes = MeshAssets(store, document.section(mjcf.ASSET), names)
    writing = Writing(described, report, options, document, names, meshes, MaterialAssets(store.textures))
    every = [*writing.scenery, *(s for link in described.links for s in link.shapes)]
    counts = Counter(shape.name for shape in every if not shape.name_is_generated)
    writing.repeated_shapes = frozenset(name for name, count in counts.items() if count > 1)
    with np.errstate(invalid="ignore", over="ignore"):  # numbers that are none are met one by one, and reported
        _fill(writing)
    return writing


def _fill(writing: Writing) -> None:
    """All sections; each step needs what those before it made."""
    write_textures(writing)
    plan_bodies(writing)
    plan_loops(writing)
    world = writing.section(mjcf.WORLDBODY)
    write_geoms(writing, writing.scenery, None, writing.described, world)
    for body in writing.bodies:
        _body(writing, body, world)
    _masses(writing)
    write_collisions(writing)
    write_scenery(writing)
    write_tendons(writing)
    write_actuators(writing)
    targets = write_drives(writing)
    write_constraints(writing)
    write_loops(writing)
    write_sensors(writing)
    write_keyframes(writing, targets)
    write_options(writing)
    write_extras(writing)
    _note_bases(writing)
    _compiler(writing)
    _sort_assets(writing)
    _report(writing)
    write_defaults(writing)
    writing.names.put()
    keep_tied_trees_awake(writing)


def _compiler(writing: Writing) -> None:
    element = writing.section(mjcf.COMPILER)
    sections = [writing.section(mjcf.ASSET), *(e for e in writing.document.given_back if e.tag == mjcf.DEFORMABLE)]
    assets = {child.tag for section in sections for child in section.children if isinstance(child, Element)}
    has_files = bool(assets & {mjcf.MESH, mjcf.HFIELD, mjcf.SKIN})
    element.attributes = {
        "angle": "radian",
        "autolimits": "true",
        **({"meshdir": "meshes"} if has_files else {}),
        **element.attributes,
    }


def _note_bases(writing: Writing) -> None:
    """Note for our own reader which roots are fixed for want of a word for what holds them."""
    notes = Element(mjcf.CUSTOM)
    for link in writing.loose_roots:
        notes.child("text", name=mjcf.BASE_NOTE + writing.names.of(mjcf.BODY, link), data=Base.UNSPECIFIED.value)
    if notes.children:
        writing.document.given_back.append(notes)


def _sort_assets(writing: Writing) -> None:
    """Assets by their kind, then as the file had them, so that MuJoCo numbers them as before."""
    known = writing.take(writing.described, mjcf.ASSETS, {})
    place = {(kind, name): i for kind, names in known.items() for i, name in enumerate(names)}

    def key(asset: object) -> tuple[int, float]:
        tag = asset.tag if isinstance(asset, Element) else ""
        own = asset_name(asset) if isinstance(asset, Element) else ""
        kinds = mjcf.ASSET_ORDER
        return kinds.index(tag) if tag in kinds else len(kinds), place.get((tag, own), math.inf)

    writing.section(mjcf.ASSET).children.sort(key=key)


# -- bodies -----------------------------------------------------------------------------------------------------------


def _body(writing: Writing, body: BodyPlan, parent: Element) -> None:
    """A body with all that is in it."""
    element = parent.child(mjcf.BODY)
    body.element = element
    if not body.pose.is_finite:
        node = body.link if body.link is not None else body.robot
        writing.approximate(node, "its pose", "its numbers are none; it is written where its parent is")
        body.pose = Pose()
    element.set(pose_attributes(body.pose))
    if body.name:
        element.attributes = {"name": body.name, **element.attributes}
    if body.mocap:
        element.set({"mocap": "true"})
    if body.link is not None:
        _link_settings(writing, body, body.link, element)
        writing.names.by_node[mjcf.BODY, id(body.link)].element = element
    inertial = Element(mjcf.BODY)
    write_joints(writing, body, element)
    if body.link is not None:
        write_geoms(writing, body.link.shapes, body, body.robot, element)
        element.children += plugins(writing, body.link)
    write_inertial(writing, body, inertial)  # which has to know the geoms, but comes first
    element.children[:0] = inertial.children
    for child in body.children:
        _body(writing, child, element)


def _link_settings(writing: Writing, body: BodyPlan, link: Link, element: Element) -> None:
    user = writing.take(link, mjcf.USER)
    element.set(
        {
            "childclass": writing.take(link, mjcf.CHILDCLASS, "") or None,
            "gravcomp": text_or_none(1.0 - link.gravity_scale),
            "sleep": sleep_of(writing, body, link),
            "user": None if user is None else trimmed(user),
        }
    )
    if not link.enabled:
        writing.drop(link, "that it is switched off", "bodies of MuJoCo's are always on")
    if link.density is not None:
        writing.drop(link, "its density", "the mass that follows from it is written")


def _masses(writing: Writing) -> None:
    """Keep MuJoCo from giving bodies without a mass that of their geoms."""
    links = [body.link for body in writing.body_of.values() if body.link is not None]
    weightless = [link for link in links if link.inertial is None and any(id(s) in writing.geoms for s in link.shapes)]
    if not weightless:
        return
    if not any(comes_from_geoms(writing, link) for link in links):
        writing.section(mjcf.COMPILER).set({"inertiafromgeom": "false"})
        return
    for shape in (s for link in weightless for s in link.shapes):
        element = writing.geoms.get(id(shape))
        if element is not None:
            element.attributes.pop("density", None)
            element.set({"mass": number(0.0)})


# -- the report -------------------------------------------------------------------------------------------------------


def _report(writing: Writing) -> None:
    for entry in writing.names.changed():
        how = f"it is called {entry.text!r} in the file"
        writing.approximate(entry.node, "its name", how)
    if isinstance(writing.described, World):
        _robot_names(writing, writing.described)
    report_leftovers(writing)


def _robot_names(writing: Writing, world: World) -> None:
    """A file of MuJoCo's has bodies; a robot is known by its first one, and a single one by the model's name."""
    for robot in world.robots:
        first = robot.links[0].name if robot.links else ""
        implied = world.name if len(world.robots) == 1 else first
        if robot.name != implied and not robot.name_is_generated:
            writing.drop(robot, "its name", f"MJCF has no robots in a world; its bodies begin with {first!r}")
        if not robot.links:
            writing.drop(robot, "the robot", "it has no links")
