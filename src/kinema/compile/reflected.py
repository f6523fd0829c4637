"""What actuators add to whatever they move, whether they work or not: inertia and damping, through their gear."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from kinema.description import Actuator, Transmission
from kinema.foundation import Array
from kinema.model import DofsInfo
from kinema.words import mjcf

from .draft import Draft
from .find import find_joint
from .options import all_actuators

N_POLY = 2
"""Coefficients beyond the linear one."""


def _no_poly() -> Array:
    return np.zeros(N_POLY)


@dataclass(slots=True, eq=False)
class Reflected:
    """The sum of what actuators add to one joint or tendon."""

    armature: float = 0.0
    damping: float = 0.0
    damping_poly: Array = field(default_factory=_no_poly)

    def add(self, actuator: Actuator) -> None:
        """Another actuator: forces and speeds both change with its gear, so inertia and damping by its square."""
        settings, square = actuator.settings, actuator.gear[0] ** 2
        self.armature += square * settings.get(mjcf.ARMATURE, 0.0)
        self.damping += square * settings.get(mjcf.DAMPING, 0.0)
        self.damping_poly = self.damping_poly + square * np.array(settings.get(mjcf.DAMPINGPOLY, (0.0,) * N_POLY))


def adds_anything(actuator: Actuator) -> bool:
    """Whether an actuator has inertia or damping of its own."""
    return any(np.any(actuator.settings.get(name, 0.0)) for name in (mjcf.ARMATURE, mjcf.DAMPING, mjcf.DAMPINGPOLY))


def on_tendons(draft: Draft, entity: int) -> dict[str, Reflected]:
    """What a part's actuators add to its tendons, by name."""
    result: dict[str, Reflected] = {}
    for actuator in all_actuators(draft.parts[entity].description):
        if actuator.transmission is Transmission.TENDON and adds_anything(actuator):
            result.setdefault(actuator.target, Reflected()).add(actuator)
    return result


def reflect_on_joints(draft: Draft, dofs: DofsInfo) -> None:
    """Add what actuators on joints add to all degrees of freedom of these."""
    for entity, part in enumerate(draft.parts):
        for actuator in all_actuators(part.description):
            if not adds_anything(actuator):
                continue
            joint = find_joint(draft, entity, actuator.target)
            if actuator.transmission not in (Transmission.JOINT, Transmission.JOINT_IN_PARENT) or joint is None:
                continue
            more, own = Reflected(), slice(joint.dof_start, joint.dof_start + joint.joint.n_dofs)
            more.add(actuator)
            dofs.armature[own] += more.armature
            dofs.damping[own] += more.damping
            dofs.damping_poly[own] += more.damping_poly
