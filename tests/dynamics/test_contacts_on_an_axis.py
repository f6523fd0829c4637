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


def test_small_bodies_are_as_hard_in_single_precision() -> None:
    """Balls and cubes of 1 and 20 mm rest as deep in the floor as in double precision, which is the same for all."""
    heights = []
    for precision in ("double", "single"):
        scene = km.Scene(precision=precision, quiet=True)
        scene.add(km.Plane())
        sizes = (0.0005, 0.01)
        balls = [scene.add(km.Sphere(r), pos=(0, 0.1 * i, r)) for i, r in enumerate(sizes)]
        cubes = [scene.add(km.Box((2 * r,) * 3), pos=(1, 0.1 * i, r)) for i, r in enumerate(sizes)]
        scene.build()
        scene.step(300)
        heights.append([body.get_pos()[0, 2] - r for body, r in zip((*balls, *cubes), (*sizes, *sizes), strict=True)])
    np.testing.assert_allclose(heights[1], heights[0], atol=1e-7)
    np.testing.assert_allclose(heights[0][:2], heights[0][0], rtol=1e-4)
