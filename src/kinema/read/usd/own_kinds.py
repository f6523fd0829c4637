"""What the settings of MJCF are that a stage may keep. Anybody can write them: what is something else is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kinema.description import FLAG_DEFAULTS, OPTION_DEFAULTS
from kinema.words import mjcf

from . import own_values as values

_NUMBERS = values.numbers()
_KINDS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys((mjcf.CLASS, mjcf.CHILDCLASS, mjcf.ASSET_NAME, mjcf.MESH_INERTIA, mjcf.FITTED_MESH), values.text),
    **dict.fromkeys((mjcf.SHORTCUT, mjcf.MATERIAL, mjcf.MESH_PLUGIN), values.text),
    **dict.fromkeys((mjcf.GROUP, mjcf.N_ACTIVATIONS, mjcf.N_CONTROLS, mjcf.INPUT), values.whole),
    **dict.fromkeys((mjcf.DAMPING, mjcf.ARMATURE, mjcf.DELAY, mjcf.SPRINGYIELD), values.number),
    **dict.fromkeys((mjcf.ACTEARLY, mjcf.PLUGIN, mjcf.ACTUATORGRAVCOMP, mjcf.SHELLINERTIA), values.flag),
    **dict.fromkeys((mjcf.CASTSHADOW, mjcf.UNREADABLE, mjcf.SLIDES_ALONE), values.flag),
    **dict.fromkeys((mjcf.USER, mjcf.HISTORY, mjcf.DAMPINGPOLY, mjcf.STIFFNESSPOLY, mjcf.PLASTIC), _NUMBERS),
    **dict.fromkeys((mjcf.FLUID, mjcf.SURFACEVEL, mjcf.SIZE), _NUMBERS),
    **dict.fromkeys((mjcf.UNUSED_RANGE, mjcf.ACTUATORFRCRANGE, mjcf.TEXREPEAT), values.numbers(2)),
    mjcf.TEXUNIFORM: values.flag,
    mjcf.TEXTURES: values.texts,
    mjcf.UNUSED_SURFACE: values.surface,
}


def fitting(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The settings that are of their kind; of those that have a prefix among others, the names begin with it."""
    return {name: value for name, value in table.items() if _fits(name.removeprefix(prefix), value, name, prefix)}


def _fits(name: str, value: Any, whole_name: str, prefix: str) -> bool:
    if not whole_name.startswith(prefix) or name not in _KINDS:
        return True
    return _is(_KINDS[name], value)


def _is(read: Callable[[Any], Any], value: Any) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def fitting_options(table: Mapping[str, Any]) -> dict[str, Any]:
    """The simulation settings that are of their kind."""
    return {name: value for name, value in table.items() if _is_option(name, value)}


def _is_option(name: str, value: Any) -> bool:
    if name == mjcf.FLAGS:
        return isinstance(value, dict) and all(k in FLAG_DEFAULTS and isinstance(v, bool) for k, v in value.items())
    if name == mjcf.DISABLEACTUATOR:
        return _is(values.whole, value)
    default = OPTION_DEFAULTS.get(name)
    if isinstance(default, tuple):
        return _is(values.numbers(len(default)), value)
    if isinstance(default, str):
        return isinstance(value, str)
    return default is None or _is(values.whole if isinstance(default, int) else values.number, value)
