"""The flat arrays, as those find them who look around."""

from __future__ import annotations

from kinema.scene import Scene
from kit.assets import EXAMPLES


def test_the_tab_key_finds_what_can_be_asked_for() -> None:
    """`dir` lists what is looked up on demand, and each of it is there."""
    scene = Scene(quiet=True)
    scene.add(EXAMPLES / "gripper" / "gripper.sdf")
    scene.build()
    solver = scene.sim.rigid_solver
    names = [name for name in dir(solver) if not name.startswith("_")]
    assert {"links_state", "dofs_state", "links_info", "dofs_info", "qpos", "n_dofs"} <= set(names)
    assert all(getattr(solver, name) is not None for name in names)
