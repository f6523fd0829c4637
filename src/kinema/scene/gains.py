"""Gains of joints that nobody gave any: those of a critically damped joint, of each variant its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array, Diagnostics, KinemaError
from kinema.model import Model
from kinema.sim import Control, joint_inertias

from .batches import Index
from .memory import Memory

NATURAL_FREQUENCY = 2.0
"""Of joints that nobody gave gains [Hz]."""
GAINS = ("kp", "kv")
FREE_DOFS = 6
"""Of a joint that lets a body fly."""
Mask = npt.NDArray[np.bool_]


class DefaultGains:
    """What kp and kv are where neither file nor user says it."""

    def __init__(self, memory: Memory, inertia: Array, given: Mask, mixed: Index, diagnostics: Diagnostics) -> None:
        self.memory = memory
        self.given = given
        """Whether the user set kp, kv: (2, n_dofs)."""
        self.diagnostics = diagnostics
        self._first = inertia
        self._mixed = mixed
        """Degrees of freedom of entities that are not the same in all environments."""
        self._table: Array | None = None

    @property
    def inertia(self) -> Array:
        """At the start configuration, along each degree of freedom, of each variant: (variants, n_dofs)."""
        if self._table is None:
            models = self.memory.engine.variants.models
            self._table = inertias(models, self._first) if len(self._mixed) else np.tile(self._first, (len(models), 1))
        return self._table

    def ensure(self, mode: Control, dofs: Index, *, silently: bool = False) -> None:
        """Give gains for a mode to those of some degrees of freedom that have none; silently as far as that goes."""
        if mode not in (Control.POSITION, Control.VELOCITY):
            return
        row = 0 if mode is Control.POSITION else 1
        models = self.memory.engine.variants.models
        lacking = [self._without(model, row, dofs) for model in models]
        open_ = sorted(self._cannot_differ({d for own in lacking for d in own}))
        if open_ and not silently:
            raise KinemaError(
                f"neither file nor user gives gains for {self._named(open_)}, and variants differ in what they would "
                'be: use set_dofs_kp and set_dofs_kv, or scene.build(per_env=("kp", "kv"))'
            )
        lacking = [[d for d in own if d not in open_] for own in lacking]
        for number, own in enumerate(lacking):
            self._give(number, row, own)
        said = sorted({d for own in lacking for d in own})
        if said and not silently:
            self.diagnostics.note(
                "scene.default-gains",
                f"neither file nor user gives gains for {self._named(said)}: a critically damped "
                f"{NATURAL_FREQUENCY:g} Hz at the start configuration is assumed",
                hint="set_dofs_kp and set_dofs_kv before build",
            )

    def _named(self, dofs: Sequence[int]) -> str:
        return ", ".join(f'"{self.memory.engine.model.dofs.names[d]}"' for d in dofs)

    def _without(self, model: Model, row: int, dofs: Index) -> list[int]:
        values = getattr(model.dofs, GAINS[row])
        return [int(d) for d in dofs if values[d] == 0.0 and not self.given[row, d]]

    def _cannot_differ(self, dofs: set[int]) -> set[int]:
        """Those that want other gains in each variant, which the arrays have no room for."""
        if not dofs & set(self._mixed.tolist()) or not any(self.memory.is_shared(name) for name in GAINS):
            return set()
        return {d for d in dofs if (self.inertia[:, d] != self.inertia[0, d]).any()}

    def _give(self, variant: int, row: int, dofs: list[int]) -> None:
        """Gains to joints of one variant, and to the environments that have it."""
        variants = self.memory.engine.variants
        info = variants.models[variant].dofs
        changed: dict[str, list[int]] = {"kp": dofs if row == 0 else [], "kv": []}
        for dof in dofs:
            inertia = 1.0 if info.acceleration_drive[dof] else float(self.inertia[variant, dof])
            stiffness = inertia * (2 * math.pi * NATURAL_FREQUENCY) ** 2
            if info.kv[dof] == 0.0 and not self.given[1, dof]:
                info.kv[dof] = 2 * math.sqrt(stiffness * inertia)
                changed["kv"].append(dof)
            if row == 0:
                info.kp[dof] = stiffness
        for name, own in ((name, own) for name, own in changed.items() if own):
            values = getattr(info, name)[own][None]
            if self.memory.is_shared(name) or len(variants.models) == 1:
                self.memory.write(name, np.array(own), values)
            else:
                envs = np.flatnonzero(variants.which == variant)
                self.memory.write(name, np.array(own), np.repeat(values, len(envs), axis=0), envs)


def inertias(models: Sequence[Model], first: Array) -> Array:
    """Along each degree of freedom at the start, of each model; that of the first is known."""
    return np.stack([first, *(np.array(joint_inertias(model)[0].diagonal) for model in models[1:])])


def need_own_gains(models: Sequence[Model], first: Array, given: Mask, mixed: Index) -> bool:
    """Whether joints of variants would have different gains where nobody gives any: joints of limbs, not free bases."""
    if any(model.n_dofs != models[0].n_dofs for model in models):
        return False  # not variants: they are refused
    lacking = ~given & np.array([np.any([getattr(m.dofs, name) == 0.0 for m in models], axis=0) for name in GAINS])
    joints = models[0].joints
    for start, end in zip(joints.dof_start.tolist(), joints.dof_end.tolist(), strict=True):
        if end - start == FREE_DOFS:
            lacking[:, start:end] = False
    open_ = np.intersect1d(mixed, np.flatnonzero(lacking.any(axis=0)))
    if not len(open_):
        return False
    table = inertias(models, first)[:, open_]
    return bool((table != table[0]).any())
