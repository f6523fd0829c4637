"""Contacts on a link that turns about its own centre of mass, which nothing can move."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import kinema as km

INERTIAL = '<inertial><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>'
BOX = (
    '<collision><origin rpy="-1.51 0.017 -1.57" xyz="-0.033 0 -0.24"/>'
    '<geometry><box size="0.5 0.6 0.1"/></geometry></collision>'
)
ROBOT = (
    f'<robot name="r"><link name="a"/><link name="b">{INERTIAL}{BOX}</link>'
    '<joint name="j" type="continuous"><parent link="a"/><child link="b"/>'
    '<axis xyz="0 0 1"/><origin rpy="0 -0.26 0" xyz="0 0 0.22"/></joint></robot>'
)


def test_they_do_not_overflow(tmp_path: Path) -> None:
    """A box deep in the floor: what pushes on its corners nearly cancels, and is a number of single precision."""
    (tmp_path / "r.urdf").write_text(ROBOT)
    scene = km.Scene(dt=0.002, quiet=True)
    scene.add(km.Plane())
    box = scene.add(km.read(tmp_path / "r.urdf"), fixed=True)
    scene.build(n_envs=1)
    scene.step(20)
    assert not scene.get_error_envs_mask().any()
    assert scene.get_peak_contacts()[0] == 4
    np.testing.assert_allclose(box.get_qvel(), 0.0, atol=2.0)
