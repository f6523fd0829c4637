"""Indices of links and geoms are local to their entity, in cameras and contacts too; unnamed shapes get names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import KinemaError, Pose
from kinema.render import Camera, look_at
from kinema.scene import SceneCameras

BODY = """<inertial><mass value="1"/><inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial>"""
SHAPE = """<collision><origin xyz="0 0 {z}"/><geometry><box size=".1 .1 .1"/></geometry></collision>"""
ROBOT = f"""<robot name="tower">
<link name="base">{BODY}{SHAPE.format(z=0)}</link>
<link name="top">{BODY}{SHAPE.format(z=0)}{SHAPE.format(z=0.1)}</link>
<joint name="turn" type="continuous"><parent link="base"/><child link="top"/>
<origin xyz="0 0 .1"/><axis xyz="0 0 1"/></joint>
</robot>"""


@pytest.fixture
def scene(tmp_path: Path) -> tuple[km.Scene, list[km.Entity]]:
    """A plane, and a box on a tower of two links."""
    file = tmp_path / "tower.urdf"
    file.write_text(ROBOT, encoding="utf-8")
    result = km.Scene(quiet=True)
    plane, tower = result.add(km.Plane()), result.add(file, fixed=False, pos=(0, 0, 0.05))
    box = result.add(km.Box((0.1, 0.1, 0.1)), pos=(0, 0, 0.35))
    result.build()
    result.step(20)
    return result, [plane, tower, box]


def test_contacts_name_entities_links_and_geoms(scene: Any) -> None:
    """The box lies on the upper shape of the second link of the tower, whose lower link stands on the plane."""
    built, (_, tower, box) = scene
    found = built.get_contacts()
    names = {
        frozenset(tuple(found[f"{item}_name_{side}"][0, i] for item in ("entity", "link", "geom")) for side in "ab")
        for i in np.flatnonzero(found["valid_mask"][0])
    }
    (plane_link,) = built.entities[0].links
    assert names == {
        frozenset([("plane", plane_link.name, "plane"), ("tower", "base", "base_collision")]),
        frozenset([("tower", "top", "top_collision_1"), ("box", box.links[0].name, "box")]),
    }
    own = box.get_contacts(with_entity=tower)
    (side,) = (s for s in "ab" if own[f"entity_{s}"][0, 0] == built.entities.index(tower))
    assert own[f"link_{side}"][0, 0] == tower.get_link("top").idx == 1
    assert tower.geom_names[own[f"geom_{side}"][0, 0]] == "top_collision_1"
    with pytest.raises(KeyError):
        own["colour_name_a"]


def test_contacts_by_attribute(scene: Any) -> None:
    """Arrays by attribute, under short names too; the forces on b carry what stands on a."""
    found = scene[0].get_contacts()
    assert found.n.tolist() == [8]
    assert found.pos is found["position"]
    assert found.valid is found.valid_mask is found["valid_mask"]
    assert found.force is found.force_b
    assert found.link_name_b.shape == found.geom_a.shape == found.penetration.shape == (1, 8)
    rises = found.normal[found.valid][:, 2] > 0
    assert ((found.force[found.valid][:, 2] > 0) == rises).all()
    with pytest.raises(AttributeError, match="contacts have no 'colour'; they have: n, pos, force, valid, position"):
        _ = found.colour


def test_forces_of_contacts_belong_to_the_links_of_each_entity(scene: Any) -> None:
    """The weight of the box acts on the second link of the tower, that of everything on the first."""
    _, (_, tower, box) = scene
    base, top = tower.get_links_net_contact_force()[0, :, 2]
    assert abs(top + box.get_links_net_contact_force()[0, 0, 2]) < 1e-3
    assert base > 2.5 * abs(top)


def test_cameras_on_links_of_any_entity(scene: Any) -> None:
    """A camera follows the link of its entity, given as handle, by pair or by name."""
    built, (_, tower, box) = scene
    top = tower.get_link("top")
    ways = [top, (tower, "top"), (tower, 1), ("tower", "top"), "top", box.links[0], -1]
    pose = Pose(np.array([0.0, 0.0, 0.2]))
    cameras = SceneCameras(built, [Camera(name=str(i), link=way, pose=pose) for i, way in enumerate(ways)], (4, 4))
    cameras.render()
    heights = cameras.renderer.camera_batch.view.position.numpy()[:, 0, 2]
    expected = [top.get_pos()[0, 2] + 0.2] * 5 + [box.get_pos()[0, 2] + 0.2, 0.2]
    np.testing.assert_allclose(heights, expected, atol=1e-5)


def test_segmentation_names_links_of_entities(scene: Any) -> None:
    """Each pixel has the index of the entity in the scene, and of the link in the entity."""
    built, (_, tower, box) = scene
    views = [look_at((2.0, 0.0, z), (0.0, 0.0, z)) for z in (0.05, 0.15, 0.35)]
    cameras = SceneCameras(built, [Camera(pose=pose, fov=0.01) for pose in views], (2, 2), images=("segmentation",))
    labels = cameras.render()["segmentation"].numpy()[0, :, 0, 0, :2]
    tower_idx, box_idx = built.entities.index(tower), built.entities.index(box)
    assert labels.tolist() == [[tower_idx, 0], [tower_idx, 1], [box_idx, 0]]


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (1, "get_link"),
        ("nothing", "get_link"),
        (("tower", 2), "out of range"),
        (("castle", 0), r"camera 'eye': link: there is no 'castle'; the entities are: plane, tower, box"),
        (None, "get_link"),
    ],
)
def test_ambiguous_links_of_cameras(scene: Any, link: Any, message: str) -> None:
    """An index without an entity is refused where there are several."""
    with pytest.raises(KinemaError, match=message):
        SceneCameras(scene[0], [Camera(name="eye", link=link)], (4, 4))
