"""Simulation options and flags of the files (MJCF `<option>`, `<flag>`), applied to the tables of the model.

Flags of a file apply to its entity. Gravity and the content of `ModelOptions` are common to the whole scene.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from kinema.core import Array, ArrayLike, float64_array
from kinema.description import Actuator, Robot, World, is_flag_enabled
from kinema.model import DofsInfo, LinksInfo, ModelOptions
from kinema.tokens import mjcf

from .context import BuildContext, all_elements, range_starts

DEFAULT_GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True, kw_only=True, slots=True)
class OptionFlags:
    """Enabled features of one entity (MJCF `<flag>`)."""

    actuation: bool
    clampctrl: bool
    contact: bool
    damper: bool
    equality: bool
    eulerdamp: bool
    frictionloss: bool
    limit: bool
    multiccd: bool
    refsafe: bool
    speculative: bool
    spring: bool
    disabled_actuator_groups: int
    """Bit mask of the disabled actuator groups."""

    @property
    def passive_forces(self) -> bool:
        """Whether passive forces are enabled: springs or dampers.

        With both disabled, MuJoCo computes no gravity compensation either.
        """
        return self.spring or self.damper

    def enables_actuator(self, actuator: Actuator) -> bool:
        """Whether an actuator is enabled: actuation is on and its group is not disabled."""
        return self.actuation and not self.disabled_actuator_groups >> int(actuator.settings.get(mjcf.GROUP, 0)) & 1


def option_flags(description: Robot | World) -> OptionFlags:
    """MuJoCo's enable and disable flags (contact, limit, gravity, ...) of a description.

    Flags that its file does not mention are enabled; all constraint flags need `constraint`.
    """
    options = merged_options(description)
    flags = tuple((name, bool(value)) for name, value in options.get(mjcf.FLAGS, {}).items())
    return _option_flags(flags, int(options.get(mjcf.DISABLEACTUATOR, 0)))


@lru_cache(maxsize=256)
def _option_flags(flags: tuple[tuple[str, bool], ...], disabled_actuator_groups: int) -> OptionFlags:
    """`option_flags` of the flags that a file mentions and its mask of disabled actuator groups."""
    options = {mjcf.FLAGS: dict(flags)}

    def on(name: str) -> bool:
        return is_flag_enabled(options, name)

    constraint = on("constraint")
    return OptionFlags(
        actuation=on("actuation"),
        clampctrl=on("clampctrl"),
        contact=on("contact") and constraint,
        damper=on("damper"),
        equality=on("equality") and constraint,
        eulerdamp=on("eulerdamp"),
        frictionloss=on("frictionloss") and constraint,
        limit=on("limit") and constraint,
        multiccd=on("multiccd"),
        refsafe=on("refsafe"),
        speculative=on("speculative"),
        spring=on("spring"),
        disabled_actuator_groups=disabled_actuator_groups,
    )


def merged_options(description: Robot | World) -> dict[str, Any]:
    """Options of a description; the options of a world take precedence over the options of its robots."""
    result: dict[str, Any] = {}
    for robot in description.robots if isinstance(description, World) else []:
        result = {**robot.options, **result}
    return {**result, **description.options}


def model_options(ctx: BuildContext) -> ModelOptions:
    """Options of the whole scene: a feature is enabled if all entities enable it; warns of entities that differ."""
    entity_flags = [option_flags(spec.description) for spec in ctx.entities]
    options = ModelOptions(
        eulerdamp=all(flags.eulerdamp for flags in entity_flags),
        contact=all(flags.contact for flags in entity_flags),
        equality=all(flags.equality for flags in entity_flags),
        **_friction_options(ctx),
        refsafe=all(flags.refsafe for flags in entity_flags),
        multiccd=all(flags.multiccd for flags in entity_flags),
    )
    for spec, enabled in zip(ctx.entities, entity_flags, strict=True):
        for name in ("eulerdamp", "contact", "equality", "refsafe", "multiccd"):
            if getattr(enabled, name) and not getattr(options, name):
                message = f'"{spec.name}" enables {name}, which another file of the scene disables for all'
                ctx.diagnostics.warning("sim.options-differ", message, origin=spec.description.origin)
    return options


def _friction_options(ctx: BuildContext) -> dict[str, Any]:
    """Friction cone type and impratio of the first entity whose file gives them; pyramidal and 1 by default."""
    options = [merged_options(spec.description) for spec in ctx.entities]
    cone = next(
        (str(entity_options["cone"]).lower() for entity_options in options if "cone" in entity_options), "pyramidal"
    )
    impratio = next(
        (float(entity_options["impratio"]) for entity_options in options if "impratio" in entity_options), 1.0
    )
    return {"elliptic": cone == "elliptic", "impratio": impratio}


def scene_gravity(ctx: BuildContext, override: ArrayLike | None) -> Array:
    """Gravity vector [m/s^2], shape (3,): `override`, else from the first file that defines it, else (0, 0, -9.81).

    Warns of files with a different gravity.
    """
    if override is not None:
        return float64_array(override).copy()
    candidates = [(p, float64_array(p.description.gravity)) for p in ctx.entities if p.description.gravity is not None]
    if not candidates:
        return float64_array(DEFAULT_GRAVITY)
    for spec, other in candidates[1:]:
        if not np.allclose(other, candidates[0][1], atol=1e-9):
            ctx.diagnostics.warning(
                "sim.gravity",
                f'gravity is ({_format_vector(candidates[0][1])}) m/s2, as in the file of "{candidates[0][0].name}", '
                f'also for "{spec.name}", whose file has ({_format_vector(other)})',
                hint="Scene(gravity=...) to choose",
                origin=spec.description.origin,
            )
    return candidates[0][1].copy()


def _format_vector(values: Array) -> str:
    return ", ".join(f"{v:g}" for v in values)


# ------------------------------------------------------------------------------------------------ application to tables

_FLAG_COLUMNS = (
    "stiffness",
    "stiffness_poly",
    "damping",
    "damping_poly",
    "frictionloss",
    "lower",
    "upper",
    "actuator_gravcomp",
    "effort_lower",
    "effort_upper",
)
"""Columns of the table of dofs that depend on flags."""


def with_option_flags(ctx: BuildContext, links: LinksInfo, dofs: DofsInfo) -> tuple[LinksInfo, DofsInfo]:
    """Tables of links and dofs with the flags of each entity applied to its rows.

    Disabled springs, dampers and friction loss become zero, disabled limits infinite. Gravity compensation is in MuJoCo
    a passive force, or an actuator force (`actuatorgravcomp`): it is dropped if passive forces are disabled, and dofs
    with actuator compensation get zero effort limits if the entity has no enabled actuators.
    """
    dof_starts = range_starts([j.entity for j in ctx.joints], len(ctx.entities), [joint.n_dofs for joint in ctx.joints])
    link_starts = range_starts([link.entity for link in ctx.links], len(ctx.entities))
    gravity_scale, columns = links.gravity_scale.copy(), {name: getattr(dofs, name).copy() for name in _FLAG_COLUMNS}
    for entity, spec in enumerate(ctx.entities):
        flags, entity_dofs = option_flags(spec.description), slice(*dof_starts[entity : entity + 2])
        entity_links = slice(*link_starts[entity : entity + 2])
        enabled = {"stiffness": flags.spring, "damping": flags.damper, "frictionloss": flags.frictionloss}
        enabled |= {"stiffness_poly": flags.spring, "damping_poly": flags.damper}
        for name in (name for name, is_on in enabled.items() if not is_on):
            columns[name][entity_dofs] = 0.0
        if not flags.limit:
            columns["lower"][entity_dofs], columns["upper"][entity_dofs] = -np.inf, np.inf
        if spec.description.format == mjcf.FORMAT and not flags.passive_forces:
            gravity_scale[entity_links] = 1.0
        if not (gravity_scale[entity_links] != 1.0).any():
            columns["actuator_gravcomp"][entity_dofs] = False
        elif not (flags.actuation and all_elements(spec.description, "actuators")):  # no actuator bears the weight
            unactuated = columns["actuator_gravcomp"][entity_dofs]
            columns["effort_lower"][entity_dofs][unactuated] = columns["effort_upper"][entity_dofs][unactuated] = 0.0
    return replace(links, gravity_scale=gravity_scale), replace(dofs, **columns)


def enabled_actuators(ctx: BuildContext, entity: int) -> list[Actuator]:
    """Enabled actuators of an entity in the order of its file; disabled ones are reported in a note."""
    spec = ctx.entities[entity]
    flags, actuators = option_flags(spec.description), all_elements(spec.description, "actuators")
    disabled = [a.name for a in actuators if not flags.enables_actuator(a)]
    if disabled:
        names = ", ".join(f'"{n}"' for n in disabled[:6]) + (
            f" and {len(disabled) - 6} more" if len(disabled) > 6 else ""
        )
        cause = "the flag actuation" if not flags.actuation else "actuatorgroupdisable"
        message = f"actuators are disabled by the file ({cause}): {names}"
        ctx.diagnostics.note("sim.actuators-off", message, origin=spec.description.origin)
    return [a for a in actuators if flags.enables_actuator(a)]
