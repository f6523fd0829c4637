"""What files say of the simulation as a whole, done where arrays can say it: `<option>` and `<flag>` of MJCF.

A file's switches count for what it describes. Gravity, and what is in `ModelOptions`, is one for the whole scene.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.description import Actuator, Robot, World, is_switched_on
from kinema.foundation import Array, ArrayLike, vector
from kinema.model import DofsInfo, LinksInfo, ModelOptions
from kinema.words import mjcf

from .draft import Draft

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True, kw_only=True, slots=True)
class Switches:
    """What one file has switched on."""

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
    spring: bool
    disabled_groups: int
    """A bit for each group of actuators that is off."""

    @property
    def passive(self) -> bool:
        """Whether there are passive forces at all: without springs and dampers MuJoCo compensates no gravity either."""
        return self.spring or self.damper

    def drives(self, actuator: Actuator) -> bool:
        """Whether an actuator works."""
        return self.actuation and not self.disabled_groups >> int(actuator.settings.get(mjcf.GROUP, 0)) & 1


def switches_of(description: Robot | World) -> Switches:
    """The switches of a file; those that it does not mention are on."""
    options = all_options(description)

    def on(name: str) -> bool:
        return is_switched_on(options, name)

    constraint = on("constraint")
    return Switches(
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
        spring=on("spring"),
        disabled_groups=int(options.get(mjcf.DISABLEACTUATOR, 0)),
    )


def all_options(description: Robot | World) -> dict[str, Any]:
    """A file's options; those of a world win over its robots'."""
    result: dict[str, Any] = {}
    for robot in description.robots if isinstance(description, World) else []:
        result = {**robot.options, **result}
    return {**result, **description.options}


def model_options(draft: Draft) -> ModelOptions:
    """The switches for the whole scene."""
    every = [switches_of(part.description) for part in draft.parts]
    chosen = ModelOptions(
        eulerdamp=all(s.eulerdamp for s in every),
        contact=all(s.contact for s in every),
        equality=all(s.equality for s in every),
        **_friction(draft),
        refsafe=all(s.refsafe for s in every),
        multiccd=all(s.multiccd for s in every),
    )
    for part, own in zip(draft.parts, every, strict=True):
        for name in ("eulerdamp", "contact", "equality", "refsafe", "multiccd"):
            if getattr(own, name) and not getattr(chosen, name):
                message = f'"{part.name}" leaves {name} on, which another file of the scene switches off for all'
                draft.diagnostics.warning("sim.options-differ", message, origin=part.description.origin)
    return chosen


def _friction(draft: Draft) -> dict[str, Any]:
    """How friction is bounded: as the first file says that says it."""
    said = [all_options(part.description) for part in draft.parts]
    cone = next((str(own["cone"]).lower() for own in said if "cone" in own), "pyramidal")
    impratio = next((float(own["impratio"]) for own in said if "impratio" in own), 1.0)
    return {"elliptic": cone == "elliptic", "impratio": impratio}


def gravity_of(draft: Draft, asked: ArrayLike | None) -> Array:
    """As asked for, else as the first file says that says it, else standard."""
    if asked is not None:
        return vector(asked)
    said = [(p, vector(p.description.gravity)) for p in draft.parts if p.description.gravity is not None]
    if not said:
        return vector(STANDARD_GRAVITY)
    for part, own in said[1:]:
        if not np.allclose(own, said[0][1], atol=1e-9):
            draft.diagnostics.warning(
                "sim.gravity",
                f'gravity is ({_listed(said[0][1])}) m/s2, as the file of "{said[0][0].name}" says, also for '
                f'"{part.name}", whose file says ({_listed(own)})',
                hint="Scene(gravity=...) to choose",
                origin=part.description.origin,
            )
    return said[0][1]


def _listed(values: Array) -> str:
    return ", ".join(f"{v:g}" for v in values)


# -- what arrays can say ----------------------------------------------------------------------------------------------


def apply_switches(draft: Draft, dofs: DofsInfo, links: LinksInfo) -> None:
    """Take out of the arrays what files have switched off."""
    entity_of_dof = np.array([j.entity for j in draft.joints for _ in range(j.joint.n_dofs)], dtype=np.int32)
    for entity, part in enumerate(draft.parts):
        switches, own = switches_of(part.description), entity_of_dof == entity
        if not switches.spring:
            dofs.stiffness[own] = 0.0
            dofs.stiffness_poly[own] = 0.0
        if not switches.damper:
            dofs.damping[own] = 0.0
            dofs.damping_poly[own] = 0.0
        if not switches.frictionloss:
            dofs.frictionloss[own] = 0.0
        if not switches.limit:
            dofs.lower[own], dofs.upper[own] = -np.inf, np.inf
        _compensation(draft, entity, switches, own, dofs, links)


def _compensation(
    draft: Draft, entity: int, switches: Switches, own: npt.NDArray[np.bool_], dofs: DofsInfo, links: LinksInfo
) -> None:
    """What compensates gravity in MuJoCo is a passive force, or the actuators': there may be none of either."""
    spared = (links.entity_idx == entity) & (links.gravity_scale != 1.0)
    description = draft.parts[entity].description
    if description.format == mjcf.FORMAT and not switches.passive:
        links.gravity_scale[spared] = 1.0
        spared[:] = False
    if not spared.any():
        dofs.actuator_gravcomp[own] = False
    elif not (switches.actuation and all_actuators(description)):  # where nothing acts, nothing bears weight either
        idle = dofs.actuator_gravcomp & own
        dofs.effort_lower[idle] = dofs.effort_upper[idle] = 0.0


def all_actuators(description: Robot | World) -> list[Actuator]:
    """The actuators of a file, whether they work or not, in the order that it has them in."""
    own = list(description.actuators)
    if isinstance(description, World):
        own += [actuator for robot in description.robots for actuator in robot.actuators]
    return sorted(own, key=lambda actuator: math.inf if actuator.order is None else actuator.order)


def working_actuators(draft: Draft, entity: int) -> list[Actuator]:
    """The actuators of a part that its file does not switch off; the others are noted."""
    part = draft.parts[entity]
    switches, found = switches_of(part.description), all_actuators(part.description)
    off = [a.name for a in found if not switches.drives(a)]
    if off:
        names = ", ".join(f'"{n}"' for n in off[:6]) + (f" and {len(off) - 6} more" if len(off) > 6 else "")
        why = "the flag actuation" if not switches.actuation else "actuatorgroupdisable"
        message = f"actuators are left out, as the file asks for ({why}): {names}"
        draft.diagnostics.note("sim.actuators-off", message, origin=part.description.origin)
    return [a for a in found if switches.drives(a)]
