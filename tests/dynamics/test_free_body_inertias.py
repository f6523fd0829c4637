"""Closed-form inertias of free bodies are those of the programs that other models are analysed with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.dynamics import compute_mass_matrix_conditioning
from kinema.dynamics.lowering.free_body_inertia import free_body_conditioning
from kinema.dynamics.lowering.invweight import compute_inverse_inertias
from kinema.dynamics.settings import Settings
from kinema.read import read


def bodies(rng: np.random.Generator, count: int) -> str:
    """Free bodies with several geoms, welded links, centres of mass away from their frames, and armature."""
    text = ""
    for i in range(count):
        quaternion = " ".join(map(str, rng.normal(size=4)))
        position = " ".join(map(str, 0.1 * rng.normal(size=3)))
        text += (
            f'<body pos="{i} 0 1" quat="{quaternion}"><joint type="free" armature="{0.1 * (i % 2)}"/>'
            f'<geom size=".1 .05 .08" type="box" pos="{position}"/>'
            '<body pos=".1 .2 .3" euler="10 20 30"><geom size=".07"/></body></body>'
        )
    return f"<mujoco><worldbody>{text}</worldbody></mujoco>"


@pytest.mark.parametrize("seed", range(3))
def test_closed_form_equals_the_traced_programs(tmp_path: Path, seed: int) -> None:
    """Inverse inertias of dofs and links at qpos0, diagonal and pivots of the mass matrix."""
    file = tmp_path / "bodies.xml"
    file.write_text(bodies(np.random.default_rng(seed), 4), encoding="utf-8")
    spec = EntitySpec(name="bodies", description=read(file))
    table = build_model([spec], with_contacts=True)
    rules = build_model([spec], with_contacts=True, min_ruled_geoms=0)
    assert rules.has_pair_rules
    found, expected = (compute_inverse_inertias(m, Settings(), {"qpos": m.qpos0[:, None]}) for m in (rules, table))
    np.testing.assert_allclose(found.dof, expected.dof, rtol=1e-9)
    for link, values in expected.link.items():
        np.testing.assert_allclose(found.link[link], values, rtol=1e-9)
    closed = free_body_conditioning(rules, rules.qpos0)
    assert closed is not None
    (traced,) = compute_mass_matrix_conditioning(table, table.qpos0)
    np.testing.assert_allclose(closed.diagonal, traced.diagonal, rtol=1e-9)
    np.testing.assert_allclose(closed.pivots, traced.pivots, rtol=1e-9)


def test_body_without_inertia_is_left_to_the_programs(tmp_path: Path) -> None:
    """A pivot of zero: the closed form gives no result."""
    file = tmp_path / "bodies.xml"
    file.write_text(bodies(np.random.default_rng(0), 2), encoding="utf-8")
    model = build_model([EntitySpec(name="b", description=read(file))], with_contacts=True, min_ruled_geoms=0)
    model = model.with_columns("links", inertial_mass=np.zeros(model.n_links), inertial_i=0.0 * model.links.inertial_i)
    assert free_body_conditioning(model.with_columns("dofs", armature=np.zeros(model.n_dofs)), model.qpos0) is None
