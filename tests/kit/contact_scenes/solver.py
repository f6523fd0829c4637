"""The solver: whichever way forces are found, they are the same; what lies still needs no looking for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .measured import FLOOR, Measured, boxes, largest, scene_of

PILE = boxes([(0, 0, 0.0995), (0.05, 0.02, 0.2985), (0.6, 0, 0.0995)]) + (
    '<body pos="0.05 0 0.497"><freejoint/><geom size=".1" mass=".5" condim="4"/></body>'
    '<body pos="0.9 0 0.2"><joint axis="0 1 0" range="-30 30" frictionloss=".1"/>'
    '<geom type="capsule" size=".04" fromto="0 0 0 -.25 0 0"/></body>'
)
"""Four trees that may touch each other, and a lever that leans on one of them, with a limit and dry friction."""
WAYS: dict[str, dict[str, Any]] = {
    "Newton": {"iterations": 100, "ls_iterations": 50},
    "by islands": {"iterations": 100, "ls_iterations": 50, "islands": True},
    "conjugate gradients": {"solver": "cg", "iterations": 2000, "ls_iterations": 50},
}
AGREE = {"double": 1e-12, "single": 1e-3}
"""Of forces, against the largest."""


def ways_to_solve(precision: str = "double") -> list[Measured]:
    """Newton's method, that by islands, and conjugate gradients, for both cones: the same forces."""
    found = []
    for cone in ("elliptic", "pyramidal"):
        forces = {name: _forces(f'cone="{cone}"', precision, **how) for name, how in WAYS.items()}
        first = forces.pop("Newton")
        found += [
            Measured(
                f"{cone}, {name}: forces beside Newton's", largest(other - first) / largest(first), AGREE[precision]
            )
            for name, other in forces.items()
        ]
    return found


def _forces(option: str, precision: str, **how: Any) -> np.ndarray:
    tolerance = {"tolerance": 1e-14} if precision == "double" else {}
    scene, pile = scene_of(PILE, 3, option, floor=FLOOR, precision=precision, **tolerance, **how)
    pile.set_qvel(0.3 * np.random.default_rng(0).normal(size=(3, pile.n_dofs)))
    return np.array(scene.sim.rigid_solver.constraints.qfrc_constraint.numpy())


STILL_RESIDUAL = {"double": 1e-10, "single": 1e-2}


def settled(precision: str = "single") -> list[Measured]:
    """What lies still: the forces of the step before are those of this one, and they make up for what is missing."""
    scene, _ = scene_of(boxes([(0, 0, 0.1), (0, 0, 0.3)]), 1, 'cone="elliptic"', floor=FLOOR, precision=precision)
    scene.step(1000)
    engine = scene.built.engine
    steps = float(engine.array_view("n_iterations").numpy().max())
    fields = scene.sim.rigid_solver.constraints
    left = largest(fields.gradient.numpy()) / largest(fields.qfrc_constraint.numpy())
    return [
        Measured("two boxes at rest: steps of the solver", steps, 1.0),
        Measured("forces that are missing, against those of contacts", left, STILL_RESIDUAL[precision]),
        Measured(
            "accelerations", largest(fields.qacc.numpy()), {"double": 2e-4, "single": 1.5e-3}[precision], unit="m/s2"
        ),
    ]
