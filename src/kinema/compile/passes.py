"""From descriptions to a model: an ordered list of passes, each with one concern."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kinema.foundation import Array, ArrayLike, Diagnostics, vector
from kinema.model import Model

from . import actuators, bodies, keyframes, pack
from .draft import Draft, Part

STANDARD_GRAVITY = (0.0, 0.0, -9.81)

PASSES: Sequence[Callable[[Draft], None]] = (
    bodies.gather_bodies,
    bodies.refuse_nothing,
    bodies.number_links,
    bodies.fold_fixed,
)


def compile_model(
    parts: Sequence[Part], gravity: ArrayLike | None = None, diagnostics: Diagnostics | None = None
) -> Model:
    """The model of everything that was added; what cannot be simulated is among the diagnostics."""
    draft = Draft(list(parts), Diagnostics() if diagnostics is None else diagnostics)
    for run in PASSES:
        run(draft)
    qpos0 = pack.start_coordinates(draft)
    dofs = pack.pack_dofs(draft)
    moved, owners = actuators.pack_actuators(draft)
    actuators.gains_from_actuators(dofs, moved)
    return Model(
        entities=pack.pack_entities(draft, owners),
        links=pack.pack_links(draft),
        joints=pack.pack_joints(draft),
        frames=pack.pack_frames(draft),
        dofs=dofs,
        actuators=moved,
        tendons=actuators.pack_tendons(draft, qpos0, dofs),
        qpos0=qpos0,
        gravity=_gravity(draft, gravity),
        keyframes=keyframes.pack_keyframes(draft, qpos0, moved, owners),
        names_of_frames=[draft.joints[j].name for _, _, j in draft.frames],
    )


def _gravity(draft: Draft, asked: ArrayLike | None) -> Array:
    """As asked for, else as the first file says that says it, else standard."""
    if asked is not None:
        return vector(asked)
    for part in draft.parts:
        if part.description.gravity is not None:
            return np.array(part.description.gravity, dtype=np.float64)
    return vector(STANDARD_GRAVITY)
