"""Which geoms may touch: excluded body pairs and explicit geom pairs."""

from __future__ import annotations

from typing import Any

from kinema.description import CollisionPair
from kinema.words import mjcf

from .engine import mujoco
from .materials import pair_surface
from .reading import Reading

WORLD = "world"


def contact_pairs(reading: Reading) -> list[tuple[set[int], CollisionPair]]:
    """Every `exclude` and `pair` with the bodies it is about."""
    model = reading.model
    return [_exclude(reading, e) for e in range(model.nexclude)] + [_pair(reading, p) for p in range(model.npair)]


def _exclude(reading: Reading, number: int) -> tuple[set[int], CollisionPair]:
    signature = int(reading.model.exclude_signature[number])
    bodies = (signature >> 16, signature & 0xFFFF)
    first, second = (reading.link(b) or WORLD for b in bodies)
    pair = CollisionPair(
        a=first,
        b=second,
        name=_name(reading.model, "mjOBJ_EXCLUDE", number),
        origin=reading.origin("excludes", number),
    )
    return set(bodies), pair


def _pair(reading: Reading, number: int) -> tuple[set[int], CollisionPair]:
    model = reading.model
    geoms = int(model.pair_geom1[number]), int(model.pair_geom2[number])
    pair = CollisionPair(
        a=reading.name(mjcf.GEOM, geoms[0]),
        b=reading.name(mjcf.GEOM, geoms[1]),
        name=_name(model, "mjOBJ_PAIR", number),
        collide=True,
        between="shapes",
        surface=pair_surface(model, number),
        origin=reading.origin("pairs", number),
    )
    return {int(model.geom_bodyid[g]) for g in geoms}, pair


def parents_collide(model: Any) -> bool:
    """Whether a body may touch its parent."""
    return bool(model.opt.disableflags & int(mujoco().mjtDisableBit.mjDSBL_FILTERPARENT))


def _name(model: Any, kind: str, number: int) -> str:
    mj = mujoco()
    return mj.mj_id2name(model, int(getattr(mj.mjtObj, kind)), number) or ""
