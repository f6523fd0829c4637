"""MJCF to MJCF: the compiled models are equal, field by field, and the second file reads as the first did."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinema.core import collect
from kinema.description import Link, Mesh, Robot, World, colliding_pairs
from kinema.read import read
from kit.assets import EXAMPLES, all_assets, asset_id
from kit.mjcf_texts import INLINE, configuration
from kit.mujoco_models import load, random_positions
from kit.written.mjcf import write

from .mjcf_zoo import ZOO
from .mjmodel_compare import differences

FILES = [EXAMPLES / "quadruped" / "quadruped.xml", *all_assets("mjcf/**/*.xml")]


def _equal_after_writing(file: Path, folder: Path) -> None:
    described = read(file, policy=collect)
    written = write(described, folder / "out")
    original = load(file)
    # the principal axes that MuJoCo finds of meshes are off by 1e-7 rad, those of the inertias that are written are not
    tolerance = 1e-6 if any(_has_inertia_of_a_mesh(link) for link in described.links) else 1e-9
    assert differences(original, written.model, tolerance) == []
    again = read(written.path, policy=collect)
    assert type(again) is type(described)
    _same_description(described, again, original)
    unexpected = [str(x) for x in written.report if "computed from its shapes" not in x.what]
    assert unexpected == []


def _has_inertia_of_a_mesh(link: Link) -> bool:
    return link.inertial_is_computed and any(isinstance(s.geometry, Mesh) and s.mass != 0.0 for s in link.shapes)


def _same_description(a: Robot | World, b: Robot | World, model: object) -> None:
    assert [x.name for x in b.links] == [x.name for x in a.links]
    assert [(j.name, j.kind, j.stacked, j.implicit) for j in b.joints] == [
        (j.name, j.kind, j.stacked, j.implicit) for j in a.joints
    ]
    q = random_positions(model, np.random.default_rng(2))
    if isinstance(a, Robot):
        first, second = (x.forward_kinematics(configuration(x, q)) for x in (a, b))
        for name, pose in first.items():
            np.testing.assert_allclose(second[name], pose, rtol=0, atol=1e-12 * (1 + np.abs(pose).max()))
    for one, other in zip(a.links, b.links, strict=True):
        assert [(s.name, s.kind, s.visual, s.collision, s.group) for s in other.shapes] == [
            (s.name, s.kind, s.visual, s.collision, s.group) for s in one.shapes
        ]
        assert [s.attributes.get("mjcf:class") for s in other.shapes] == [
            s.attributes.get("mjcf:class") for s in one.shapes
        ]
    for kind in ("actuators", "tendons", "sensors", "frames", "cameras", "lights", "keyframes", "constraints"):
        names = [[item.name for item in getattr(x, kind)] for x in (a, b)]
        assert names[0] == names[1]
    pairs = [{frozenset((p.shape.name, q.shape.name)) for p, q in colliding_pairs(x)} for x in (a, b)]
    assert pairs[0] == pairs[1]
    assert b.options == a.options
    assert sorted(e.tag for e in b.extras) == sorted(e.tag for e in a.extras)


@pytest.mark.wide
@pytest.mark.parametrize("file", FILES, ids=asset_id)
def test_real_robots(file: Path, tmp_path: Path) -> None:
    """Every robot of the format comes back as it was."""
    _equal_after_writing(file, tmp_path)


@pytest.mark.parametrize("name", [*ZOO, *INLINE])
def test_everything_the_format_has(name: str, tmp_path: Path) -> None:
    """Small files that use all elements and attributes."""
    file = tmp_path / "model.xml"
    file.write_text({**INLINE, **ZOO}[name], encoding="utf-8")
    try:
        load(file)
    except ValueError as error:
        pytest.skip(f"this version of MuJoCo does not know all of it: {error}")
    _equal_after_writing(file, tmp_path)


CHANGED = {
    "constraints": ("body_mass", "body_pos", "jnt_range", "dof_damping", "eq_data", "tendon_range", "pair_friction"),
    "actuators": ("actuator_gainprm", "actuator_gear", "key_qpos", "key_ctrl", "site_pos", "qpos_spring"),
    "sensors": ("sensor_cutoff", "sensor_intprm", "sensor_objid"),
    "scenery": ("geom_friction", "geom_contype", "cam_pos", "light_dir", "geom_rgba", "body_user", "body_inertia"),
}


@pytest.mark.parametrize(("name", "field"), [(n, f) for n, fields in CHANGED.items() for f in fields])
def test_a_difference_is_found(name: str, field: str, tmp_path: Path) -> None:
    """The comparison can fail: each of these fields, changed in one place."""
    file = tmp_path / "model.xml"
    file.write_text(ZOO[name], encoding="utf-8")
    one, two = load(file), load(file)
    assert differences(one, two) == []
    table = getattr(two, field)
    table.flat[_place(one, field)] += 1
    assert differences(one, two)


def _place(model: object, field: str) -> int:
    """A number in a table that matters: one that is not zero."""
    return int(np.flatnonzero(getattr(model, field))[0])


FIELDS = """<mujoco><extension><plugin plugin="mujoco.sdf.torus"><instance name="t">
<config key="radius1" value="0.35"/><config key="radius2" value="0.15"/></instance></plugin></extension>
<asset><mesh name="ring"><plugin instance="t"/></mesh>
<mesh name="wedge" vertex="0 0 0  1 0 0  0 1 0  0 0 1  .3 .3 .3"
face="0 2 1  0 1 3  0 3 2  1 2 4  2 3 4  3 1 4"/></asset>
<worldbody><geom type="sdf" mesh="ring"><plugin instance="t"/></geom><geom type="sdf" mesh="wedge" pos="2 0 0"/>
<body pos=".1 .2 .15"><freejoint/><geom size=".2"/></body><body pos="2.55 .45 .5"><freejoint/><geom size=".2"/></body>
</worldbody></mujoco>"""


def test_fields_of_distances_stay(tmp_path: Path) -> None:
    """Meshes that plugins compute, and meshes that collide as they are: the same contacts, though hulls would touch."""
    file = tmp_path / "fields.xml"
    file.write_text(FIELDS)
    written = write(read(file, policy=collect), tmp_path / "out")
    assert not [loss for loss in written.report if loss.kind == "shape"]
    found = []
    for model in (load(file), written.model):
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        found.append((model.geom_type.tolist(), data.ncon, data.qacc))
    assert found[0][:2] == found[1][:2]
    assert found[0][1] > 0
    np.testing.assert_allclose(found[1][2], found[0][2], atol=1e-9)
