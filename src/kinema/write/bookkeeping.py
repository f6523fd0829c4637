"""What a description keeps for the way back to its own format, and nobody misses elsewhere: no loss to tell of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kinema.description import FLAG_DEFAULTS, OPTION_DEFAULTS
from kinema.foundation import Array
from kinema.words import mjcf, sdf, urdf, usd

_OF_NODES = frozenset(
    {
        *map(mjcf.key, (mjcf.ASSETS, mjcf.ASSET_NAME, mjcf.FILES, mjcf.MESH_PLUGIN)),
        *map(mjcf.key, (mjcf.CLASS, mjcf.CHILDCLASS)),  # what they stand for is written in full
        *map(mjcf.key, (mjcf.UNUSED_RANGE, mjcf.UNUSED_SURFACE, mjcf.SLIDES_ALONE)),
        *map(sdf.key, (sdf.VERSION, sdf.CANONICAL_LINK, sdf.TYPE)),
        *(urdf.VERSION, urdf.LIMIT),
        *(usd.KEPT_ARTICULATION, usd.KEPT_RESET, usd.KEPT_SCHEMAS, usd.KEPT_TYPE),
    }
)
_OF_TABLES = frozenset(
    {
        *(mjcf.SHORTCUT, mjcf.UNUSED_RANGE),
        *(mjcf.N_ACTIVATIONS, mjcf.N_CONTROLS),  # they follow from the kind of actuator
        *(mjcf.DIM, mjcf.DATATYPE),  # they follow from the kind of sensor
        *(usd.KEPT_TYPE,),
    }
)


def missed(attributes: Iterable[str]) -> list[str]:
    """The settings of a node that somebody may miss."""
    return [name for name in attributes if name not in _OF_NODES]


def missed_settings(settings: Iterable[str]) -> list[str]:
    """The same of the settings of an actuator, sensor, camera or light."""
    return [name for name in settings if name not in _OF_TABLES]


def missed_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The simulation settings that are other than any simulator's own; each flag by itself.

    A reader of MJCF knows all of MuJoCo's, whether the author wrote them or not.
    """
    flags: Mapping[str, bool] = options.get(mjcf.FLAGS, {})
    plain = {name: value for name, value in options.items() if name not in (mjcf.FLAGS, mjcf.DISABLEACTUATOR)}
    result = {n: v for n, v in plain.items() if n not in OPTION_DEFAULTS or v != OPTION_DEFAULTS[n]}
    if options.get(mjcf.DISABLEACTUATOR):
        result[mjcf.DISABLEACTUATOR] = options[mjcf.DISABLEACTUATOR]
    return result | {f"flag {name}": on for name, on in flags.items() if on != FLAG_DEFAULTS.get(name, True)}


def missed_gravity(gravity: Array | None) -> bool:
    """Whether gravity is other than what everybody takes it for."""
    return gravity is not None and tuple(gravity.tolist()) not in ((0.0, 0.0, -9.81), (0.0, 0.0, -9.8))
