"""Numbers of all parts at once are those of the parts one after the other, to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.dynamics.lowering import invweight, program_tracing, reference_configuration
from kinema.model import Model
from kinema.read import read

CHAIN = (
    '<joint axis="{axis}" range="-1 1" limited="true" ref=".1"/>'
    '<geom type="capsule" size=".03" fromto="0 0 0 .2 0 .1"/>'
)


def arms() -> str:
    """Trees of hinges, slides and balls beside bodies that fly."""
    text = ""
    for i in range(4):
        inner = f'<body pos=".2 0 .1"><joint type="slide" axis="0 1 {i}"/><geom size=".0{i + 3}"/></body>'
        inner += f'<body pos="0 .1 0"><joint type="ball"/><geom type="box" size=".02 .03 .0{i + 1}"/></body>'
        chain = CHAIN.format(axis=f"{i} 1 .5")
        text += f'<body pos="{i} 0 1" euler="{10 * i} 20 5">{chain}{inner}</body>'
        text += f'<body pos="{i} 2 1"><freejoint/><geom type="box" size=".1 .2 .0{i + 2}"/></body>'
    return f'<mujoco><worldbody><geom type="plane" size="1 1 1"/>{text}</worldbody></mujoco>'


def found(model: Model) -> list[np.ndarray]:
    """What is wanted once."""
    at = reference_configuration.compute_mass_matrix_conditioning(
        model, model.qpos0, reference_configuration.perturbed_configuration(model)
    )
    (derived,) = invweight.with_constraint_invweights([model])
    return [
        *(np.array(x) for own in at for x in (own.diagonal, own.pivots)),
        derived.derived.pair_invweight,
        derived.derived.dof_invweight,
    ]


def test_the_same_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inertias, and how hard constraints are."""
    (tmp_path / "arms.xml").write_text(arms(), encoding="utf-8")
    results = []
    for many in (1, 10_000):
        for module in (program_tracing, invweight):
            monkeypatch.setattr(module, "MIN_BATCHED_FRAMES", many)
        results.append(
            found(build_model([EntitySpec(name="arms", description=read(tmp_path / "arms.xml"))], with_contacts=True))
        )
    for quick, slow in zip(*results, strict=True):
        np.testing.assert_array_equal(quick, slow)
