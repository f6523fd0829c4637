"""What surfaces look like and how they touch."""

from __future__ import annotations

import dataclasses
from typing import Any

from kinema.description import PhysicsMaterial, VisualMaterial
from kinema.words import mjcf

from .engine import mujoco
from .reading import Reading, floats, rgba, set_given, short_floats, solver_parameters
from .textures import add_textures

_DEFAULT_COLOR = (0.5, 0.5, 0.5, 1.0)
_DEFAULT_SOLREF = (0.02, 1.0)
_DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
_GAP_BEYOND_MARGIN = (3, 9)
"""Since this version of MuJoCo the gap lies beyond the margin; before, it was its outer part."""


def visual_material(reading: Reading, material: int, own_color: Any) -> VisualMaterial:
    """The look of a geom: its material's, with the geom's own colour where that is not MuJoCo's default grey."""
    color = rgba(own_color)
    if material < 0:
        return VisualMaterial(color=color)
    model = reading.model
    result = VisualMaterial(**reading.node(mjcf.MATERIAL, "materials", material))
    result.color = rgba(model.mat_rgba[material]) if color == _DEFAULT_COLOR else color
    emission = short_floats(model.mat_emission[material])[0]
    if emission:
        red, green, blue, _ = result.color
        result.emission = (emission * red, emission * green, emission * blue)
    result.specular = short_floats(model.mat_specular[material])[0]
    result.reflectance = short_floats(model.mat_reflectance[material])[0]
    # MuJoCo writes -1 for what the file does not say
    result.metallic = _given(model.mat_metallic[material])
    result.roughness = _given(model.mat_roughness[material])
    repeat = model.mat_texrepeat[material]
    set_given(
        result.attributes,
        {
            mjcf.SHININESS: model.mat_shininess[material],
            mjcf.TEXUNIFORM: bool(model.mat_texuniform[material]),
            mjcf.TEXREPEAT: () if floats(repeat) == (1.0, 1.0) else repeat,
        },
    )
    add_textures(reading, material, result)
    return result


def _given(value: Any) -> float | None:
    return None if value < 0 else short_floats(value)[0]


def surface_of(model: Any, geom: int) -> PhysicsMaterial:
    """How a geom touches others."""
    sliding, torsional, rolling = floats(model.geom_friction[geom])
    gap = float(model.geom_gap[geom])
    margin = force_margin(float(model.geom_margin[geom]), gap)
    return PhysicsMaterial(
        static_friction=sliding,
        dynamic_friction=sliding,
        torsional_friction=torsional,
        rolling_friction=rolling,
        contact_dimension=int(model.geom_condim[geom]),
        gap=gap,
        priority=int(model.geom_priority[geom]),
        solmix=float(model.geom_solmix[geom]),
        solver=solver_parameters(model.geom_solref[geom], model.geom_solimp[geom], margin),
    )


def differs_from_default(surface: PhysicsMaterial) -> bool:
    """Whether a geom's surface is not the one that MuJoCo gives by itself."""
    plain = PhysicsMaterial(
        static_friction=1.0,
        dynamic_friction=1.0,
        torsional_friction=0.005,
        rolling_friction=0.0001,
        contact_dimension=3,
        solver=solver_parameters(_DEFAULT_SOLREF, _DEFAULT_SOLIMP, 0.0),
    )
    return any(getattr(surface, f.name) != getattr(plain, f.name) for f in dataclasses.fields(surface))


def pair_surface(model: Any, pair: int) -> PhysicsMaterial:
    """How the two geoms of an explicit pair touch."""
    first, second, spin, roll, roll2 = floats(model.pair_friction[pair])
    gap = float(model.pair_gap[pair])
    margin = force_margin(float(model.pair_margin[pair]), gap)
    surface = PhysicsMaterial(
        static_friction=first,
        dynamic_friction=first,
        dynamic_friction2=None if second == first else second,
        torsional_friction=spin,
        rolling_friction=roll,
        contact_dimension=int(model.pair_dim[pair]),
        gap=gap,
        solver=solver_parameters(model.pair_solref[pair], model.pair_solimp[pair], margin),
    )
    set_given(
        surface.attributes,
        {
            mjcf.FRICTION: () if (second, roll2) == (first, roll) else model.pair_friction[pair],
            mjcf.SOLREFFRICTION: model.pair_solreffriction[pair],
            mjcf.ADHESION: float(getattr(model, "pair_adhesion", (0.0,) * model.npair)[pair]),
        },
    )
    return surface


def force_margin(margin: float, gap: float) -> float:
    """The distance at which contact forces begin [m]."""
    version = tuple(int(part) for part in mujoco().__version__.split(".")[:2])
    return margin if version >= _GAP_BEYOND_MARGIN else margin - gap
