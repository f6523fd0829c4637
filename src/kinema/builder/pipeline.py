"""Model builder pipeline: the ordered passes that build a `Model` of flat arrays from the entities of a scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from kinema.core import ArrayLike, Diagnostics
from kinema.description import JointKind, Robot, World
from kinema.model import Model, empty_geoms, empty_pair_rules, empty_pairs, empty_sensors

from . import (
    actuators,
    collision_geoms,
    equalities,
    keyframes,
    kinematic_tables,
    kinematic_tree,
    options,
    paths,
    tendons,
)
from .added_sensors import AddedSensor
from .attachments import pack_attachments, pack_suction_cups
from .collision_geoms import GeomRecord
from .context import AttachmentSpec, BuildContext, EntitySpec, GeometryCache, SuctionCupSpec, TreeCache
from .fluid import MEDIUM_FROM_FILES, Medium, pack_fluid
from .pair_rules import collect_pair_rules, may_use_pair_rules
from .sensors import pack_sensors

TREE_PASSES: Sequence[Callable[[BuildContext], None]] = (
    kinematic_tree.build_links,
    kinematic_tree.check_not_empty,
    kinematic_tree.number_links_and_coordinates,
    kinematic_tree.fold_fixed_joints,
)
"""Passes that build links, joints and moving frames in a `BuildContext`, in order."""


def build_model(  # noqa: PLR0913
    entities: Sequence[EntitySpec],
    gravity: ArrayLike | None = None,
    diagnostics: Diagnostics | None = None,
    medium: Medium = MEDIUM_FROM_FILES,
    *,
    with_contacts: bool = False,
    min_ruled_geoms: int | None = None,
    kinematic_bodies: bool = False,
    switchable_equalities: bool = False,
    movable_surfaces: bool = False,
    attachments: Sequence[AttachmentSpec] = (),
    suction_cups: Sequence[SuctionCupSpec] = (),
    sensors: Sequence[AddedSensor] | None = None,
    geometry_cache: GeometryCache | None = None,
) -> Model:
    """Build the `Model` (flat arrays of links, joints, dofs, actuators, ...) of all entities of a scene.

    Runs the passes of `TREE_PASSES` on a new `BuildContext`, then packs one table after the other. Elements that cannot
    be simulated are reported to `diagnostics` and left out.

    Args:
        entities: the robots and worlds of the scene, with their base poses.
        gravity: gravity vector [m/s^2], shape (3,); None for the gravity of the files.
        diagnostics: collector of warnings and notes; None for a new one that is discarded.
        medium: density, viscosity and wind that override those of the files.
        with_contacts: whether to build the tables of collision geoms and geom pairs (meshes take time).
        min_ruled_geoms: number of geoms from which on rules of collision take the place of a table of geom pairs; None
            for a table.
        switchable_equalities: whether equality constraints that are initially inactive get rows too.
        kinematic_bodies: whether kinematic links get frames that can be moved; else they are fixed to the world.
        movable_surfaces: whether geoms can have a surface velocity at run time, also if no file has one.
        attachments: pairs of links to reserve for attachments at run time.
        suction_cups: suction cups.
        sensors: sensors in addition to those of the descriptions; None for a model without tables of sensors.
        geometry_cache: collision shapes and overlapping links, shared by the variants of a scene; None for a new one.
    """
    ctx = BuildContext(
        list(entities),
        Diagnostics() if diagnostics is None else diagnostics,
        switchable_equalities=switchable_equalities,
        has_kinematic_bodies=kinematic_bodies,
        attachments=attachments,
        suction_cups=suction_cups,
    )
    ctx.geometry_cache = ctx.geometry_cache if geometry_cache is None else geometry_cache
    for build_pass in TREE_PASSES:
        build_pass(ctx)
    qpos0 = kinematic_tables.initial_coordinates(ctx)
    dofs = kinematic_tables.with_reflected_inertia(ctx, kinematic_tables.pack_dofs(ctx))
    equality_table = equalities.pack_equalities(ctx)
    tendon_table = tendons.pack_tendons(ctx, dofs)
    links, dofs = options.with_option_flags(ctx, kinematic_tables.pack_links(ctx), dofs)
    actuator_table, actuator_entities = actuators.pack_actuators(ctx)
    dofs = actuators.with_gains_of_servos(dofs, actuator_table)
    geoms, pairs, rules = empty_geoms(), empty_pairs(), empty_pair_rules()
    if with_contacts:
        has_rules = min_ruled_geoms is not None and may_use_pair_rules(ctx, min_ruled_geoms)
        collected = collect_pair_rules(ctx) if has_rules else None
        if collected is None:
            geoms, pairs = collision_geoms.pack_geoms(ctx, movable_surfaces=movable_surfaces)
        else:
            geoms = collision_geoms.pack_geom_table(collected[0], movable_surfaces=movable_surfaces)
            rules = collected[1]
    sensor_table = empty_sensors()
    if sensors is not None:
        sensor_table = pack_sensors(ctx, actuator_table, actuator_entities, sensors)
    return Model(
        entities=kinematic_tables.pack_entities(ctx, actuator_entities),
        links=links,
        joints=kinematic_tables.pack_joints(ctx),
        frames=kinematic_tables.pack_frames(ctx),
        dofs=dofs,
        actuators=actuator_table,
        tendons=tendon_table,
        equalities=equality_table,
        couplings=equalities.pack_couplings(ctx),
        qpos0=qpos0,
        gravity=options.scene_gravity(ctx, gravity),
        options=options.model_options(ctx),
        keyframes=keyframes.pack_keyframes(ctx, qpos0, actuator_table, actuator_entities),
        path_segments=paths.pack_path_segments(ctx),
        geoms=geoms,
        pairs=pairs,
        pair_rules=rules,
        fluid=pack_fluid(ctx, medium),
        sensors=sensor_table,
        attachments=pack_attachments(ctx, len(equality_table.names)),
        suction_cups=pack_suction_cups(ctx),
        frame_names=[placed.primitive.joint.name for _, placed, _ in ctx.frames],
    )


class EntityModels:
    """Models of entities that have one description and differ by name and base pose.

    Args:
        spec: one of the entities, whose model is built.
    """

    def __init__(self, spec: EntitySpec) -> None:
        self._spec, self.diagnostics = spec, Diagnostics()
        """Messages of the builder."""
        self._model = build_model([spec], diagnostics=self.diagnostics)
        self._is_movable = _only_coordinates_depend_on_pose(self._model, spec.description)
        self._tree_cache = TreeCache()

    def model_or_template(self, spec: EntitySpec) -> tuple[Model, Callable[[], Model] | None]:
        """Model of an entity; or that of the first entity, if they differ by name and initial coordinates only.

        In the second case also a function that makes the model of the entity.
        """
        if spec is self._spec:
            return self._model, None
        if not self._is_movable:
            return build_model([spec]), None
        return self._model, partial(self._moved_model, spec)

    def _moved_model(self, spec: EntitySpec) -> Model:
        ctx = BuildContext([spec], Diagnostics(), tree_cache=self._tree_cache)
        kinematic_tree.build_links(ctx)
        kinematic_tree.number_links_and_coordinates(ctx)
        entities = [replace(self._model.entities[0], name=spec.name)]
        return replace(self._model, entities=entities, qpos0=kinematic_tables.initial_coordinates(ctx))


def _only_coordinates_depend_on_pose(model: Model, robot: Robot | World) -> bool:
    """Whether only the initial coordinates of free joints depend on the base pose of the entity of a model.

    Not for links and elements attached to the world, and keyframes.
    """
    if isinstance(robot, World) or not model.n_links or model.links.is_fixed.any():
        return False
    tables = (model.actuators, model.tendons, model.equalities, model.couplings, model.keyframes, model.geoms)
    if any(table.names for table in tables) or set(model.joints.kinds) != {JointKind.FREE.value}:
        return False
    poses = [joint.parent_pose for joint in robot.joints if joint.kind is JointKind.FREE]
    is_at_origin = [not pose.position.any() and (pose.rotation == np.eye(3)).all() for pose in poses]
    return all(is_at_origin) and not model.frames.pos.any()


def collision_geoms_of(entities: Sequence[EntitySpec]) -> list[GeomRecord]:
    """Geoms of all enabled collision shapes of the entities of a scene, also geoms that collide with no other.

    In the order of entities, links (static geoms of an entity first) and files.
    """
    ctx = BuildContext(list(entities), Diagnostics())
    for build_pass in TREE_PASSES:
        build_pass(ctx)
    return collision_geoms.list_geoms(ctx)
