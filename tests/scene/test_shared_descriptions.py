"""Bodies and files that are added several times: described, read and checked once, and the same as if they were not."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.core import content_digest
from kinema.description import PhysicsMaterial
from kinema.read import cached_read
from kinema.scene import shared_descriptions

BOX = (0.2, 0.16, 0.12)
HINGED = """<robot name="arm"><link name="base"/><link name="rod"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/></joint></robot>"""


def _add_several(scene: km.Scene, sources: list[Any], **arguments: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    return [scene.add(x, pos=rng.normal(size=3), quat=rng.normal(size=4), **arguments) for x in sources]


@pytest.mark.parametrize("arguments", [{}, {"fixed": True}, {"kinematic": True}, {"friction": 0.3, "mass": 2.0}])
def test_the_model_is_that_of_separate_descriptions(arguments: dict[str, Any]) -> None:
    """Of bodies of three kinds at different poses, some of them equal: all tables, and the models of the entities."""
    bodies = [
        km.Box(BOX),
        km.Sphere(0.1),
        km.Box(np.array(BOX)),
        km.Box(BOX),
        km.Mesh(vertices=np.eye(4, 3), faces=FACES),
    ]
    shared, separate = km.Scene(), km.Scene()
    entities = _add_several(shared, [*bodies, bodies[0]], **arguments)
    assert entities[0]._index.description is entities[3]._index.description is entities[5]._index.description
    assert entities[0]._index.description is not entities[1]._index.description
    described = [copy.deepcopy(entity._index.description) for entity in entities]
    others = _add_several(separate, described, **{k: v for k, v in arguments.items() if k in ("fixed", "kinematic")})
    for scene in (shared, separate):
        scene.build()
    assert [x.name for x in entities] == ["box", "sphere", "box_1", "box_2", "mesh", "box_3"]
    assert content_digest(shared.built.model) == content_digest(separate.built.model)
    for entity, other in zip(entities, others, strict=True):
        spec = EntitySpec(
            name=entity.name,
            description=other.description,
            pose=other._index.base_pose,
            fixed=arguments.get("fixed"),
            nonconvex=shared.nonconvex,
        )
        assert content_digest(entity._index.posed_model) == content_digest(build_model([spec]))


FACES = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]


def test_descriptions_can_be_changed_one_by_one_before_build() -> None:
    scene = km.Scene()
    material = PhysicsMaterial(dynamic_friction=0.3)
    first, second, third = (scene.add(km.Box(BOX), material=material) for _ in range(3))
    second.description.links[0].gravity_scale = 0.0
    assert second.description.links[0].shapes[0].surface is material
    scene.build()
    assert scene.built.model.links.gravity_scale.tolist() == [1.0, 0.0, 1.0]
    assert first.description is third.description is not second.description


def test_different_arguments_are_not_shared() -> None:
    scene = km.Scene()
    variations: list[dict[str, Any]] = [
        {},
        *({"mass": 1.0}, {"mass": 2}, {"friction": (0.5, 0.1)}, {"friction": 0.5}, {"color": (1, 0, 0)}),
        *({"collision": False}, {"scale": 2.0}, {"fixed": True}, {"kinematic": True}, {"fast": True}),
        *({"material": PhysicsMaterial()}, {"material": PhysicsMaterial(density=1.0)}),
    ]
    entities = [scene.add(km.Box(BOX), **arguments) for arguments in variations]
    assert len({id(x._index.description) for x in entities}) == len(variations)
    again = [scene.add(km.Box(BOX), **arguments) for arguments in variations]
    assert [x._index.description for x in again] == [x._index.description for x in entities]


def test_a_changed_material_is_not_shared() -> None:
    scene, material = km.Scene(), PhysicsMaterial(density=100.0)
    light = scene.add(km.Box((1, 1, 1)), material=material)
    material.density = 300.0
    heavy = scene.add(km.Box((1, 1, 1)), material=material)
    assert [x.links[0].mass for x in (light, heavy)] == pytest.approx([100.0, 300.0])


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it changes; every entity reports its messages."""
    file = tmp_path / "arm.urdf"
    file.write_text(HINGED, encoding="utf-8")
    reads, read = [], cached_read.read
    monkeypatch.setattr(cached_read, "read", lambda *x, **how: reads.append(x) or read(*x, **how))
    scene = km.Scene()
    first, second = scene.add(file), scene.add(str(file), pos=(0, 1, 0))
    assert len(reads) == 1
    assert first._index.description is second._index.description
    np.testing.assert_array_equal(second._index.posed_model.frames.pos, [[0.0, 1.0, 0.0]])
    file.write_text(HINGED.replace('mass value="1"', 'mass value="2"'), encoding="utf-8")
    third = scene.add(file)
    assert [x.links[1].mass for x in (first, second, third)] == [1.0, 1.0, 2.0]


def test_unknown_values_are_not_shared() -> None:
    class OwnBox(km.Box):
        pass

    arguments = shared_descriptions.DescriptionArguments(km.scene.morphs.MaterialOverrides(), 1.0, None, False, None)
    known = shared_descriptions.SharedDescriptions()
    assert not known.describe(OwnBox(BOX), arguments).is_kept
    assert not known.describe(km.Scene().add(km.Box(BOX)).description, arguments).is_kept
    assert known.describe(km.Box(BOX), arguments).is_kept


def test_copies_of_a_mesh_share_its_data(tmp_path: Path) -> None:
    """One file in three places, and another one: two blocks in the table of geoms."""
    files = [tmp_path / "a.obj", tmp_path / "b.obj"]
    for file, size in zip(files, (0.1, 0.2), strict=True):
        corners = [(x, y, z) for x in (0, size) for y in (0, size) for z in (0, 2 * size)]
        faces = [
            "1 2 4",
            "1 4 3",
            "5 7 8",
            "5 8 6",
            "1 5 6",
            "1 6 2",
            "3 4 8",
            "3 8 7",
            "1 3 7",
            "1 7 5",
            "2 6 8",
            "2 8 4",
        ]
        lines = [*("v {} {} {}".format(*corner) for corner in corners), *(f"f {face}" for face in faces)]
        file.write_text("\n".join(lines), encoding="utf-8")
    scene, alone = km.Scene(), km.Scene()
    _add_several(scene, [files[0], files[1], files[0], files[0]])
    _add_several(alone, files)
    for x in (scene, alone):
        x.add(km.Plane())
        x.build()
    starts = scene.built.model.geoms.data_start.tolist()
    assert len(scene.built.model.geoms.data) == len(alone.built.model.geoms.data)
    first, second = starts[0], starts[1]
    assert starts[:4] == [first, second, first, first]
    assert second > first
