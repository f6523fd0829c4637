"""From descriptions to a model: an ordered list of passes, each with one concern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kinema.foundation import ArrayLike, Diagnostics
from kinema.model import Model, no_geoms, no_pairs, no_sensors

from . import actuators, bodies, couplings, geoms, keyframes, options, pack, paths, reflected, sensors, tendons, ties
from .draft import Draft, Part
from .fluid import AS_FILES_SAY, Medium, pack_fluid

PASSES: Sequence[Callable[[Draft], None]] = (
    bodies.gather_bodies,
    bodies.refuse_nothing,
    bodies.number_links,
    bodies.fold_fixed,
)


def compile_model(
    parts: Sequence[Part],
    gravity: ArrayLike | None = None,
    diagnostics: Diagnostics | None = None,
    medium: Medium = AS_FILES_SAY,
    *,
    contacts: bool = False,
    switchable: bool = False,
    measures: bool = False,
    solids: dict[tuple[int, str | None], Any] | None = None,
) -> Model:
    """The model of everything that was added; what cannot be simulated is among the diagnostics.

    What can touch what is in it only if asked for, and what is measured likewise: meshes take their time. With
    `switchable`, constraints that do not hold to begin with are in it as well. `solids` keeps what stands for shapes
    from one call to the next, of the same descriptions.
    """
    draft = Draft(list(parts), Diagnostics() if diagnostics is None else diagnostics, switchable=switchable)
    draft.solids = draft.solids if solids is None else solids
    for run in PASSES:
        run(draft)
    qpos0 = pack.start_coordinates(draft)
    links, dofs = pack.pack_links(draft), pack.pack_dofs(draft)
    reflected.reflect_on_joints(draft, dofs)
    held = ties.pack_ties(draft)
    lengths = tendons.pack_tendons(draft, dofs)
    options.apply_switches(draft, dofs, links)
    moved, owners = actuators.pack_actuators(draft)
    actuators.gains_from_actuators(dofs, moved)
    shapes, pairs = geoms.pack_geoms(draft) if contacts else (no_geoms(), no_pairs())
    measured = sensors.pack_sensors(draft, moved, owners) if measures else no_sensors()
    return Model(
        entities=pack.pack_entities(draft, owners),
        links=links,
        joints=pack.pack_joints(draft),
        frames=pack.pack_frames(draft),
        dofs=dofs,
        actuators=moved,
        tendons=lengths,
        ties=held,
        couplings=couplings.pack_couplings(draft),
        qpos0=qpos0,
        gravity=options.gravity_of(draft, gravity),
        options=options.model_options(draft),
        keyframes=keyframes.pack_keyframes(draft, qpos0, moved, owners),
        paths=paths.pack_paths(draft),
        geoms=shapes,
        pairs=pairs,
        fluid=pack_fluid(draft, medium),
        sensors=measured,
        names_of_frames=[draft.joints[j].name for _, _, j in draft.frames],
    )
