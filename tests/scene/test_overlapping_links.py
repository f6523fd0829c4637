"""Links of URDF robots that are inside each other at first do not collide; other links do, and users may choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kinema as km
from kit.robots.small_robots import from_text

INERTIAL = '<inertial><mass value="1"/><inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial>'
LINK = '<link name="{}">' + INERTIAL + '<collision><origin xyz="{}"/><geometry>{}</geometry></collision></link>'
HINGE = """<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/><origin xyz="0 0 {z}"/>
<axis xyz="0 1 0"/><limit lower="{lower}" upper="2" effort="100" velocity="5"/></joint>"""
BOX, BALL = '<box size=".2 .2 .2"/>', '<sphere radius=".1"/>'


def arm(rotor_at: str = "0 0 -.2", tip: str = BALL, tip_at: str = "0 0 .4", lower: float = -2.0) -> str:
    """A base, an upper link with a rotor, and a tip; the rotor is in the base, the tip is not."""
    links = [("base", "0 0 0", BOX), ("upper", "0 0 .2", BOX), ("rotor", rotor_at, BALL), ("tip", tip_at, tip)]
    joints = [
        ("shoulder", "base", "upper", 0.2, lower),
        ("spin", "upper", "rotor", 0.0, -2.0),
        ("elbow", "upper", "tip", 0.0, -2.0),
    ]
    return (
        '<robot name="arm">'
        + "".join(LINK.format(*link) for link in links)
        + "".join(HINGE.format(name=n, parent=p, child=c, z=z, lower=low) for n, p, c, z, low in joints)
        + "</robot>"
    )


def touching(scene: km.Scene) -> set[frozenset[str]]:
    """Names of links that touch now."""
    found = scene.get_contacts()
    names = zip(found.link_name_a[found.valid], found.link_name_b[found.valid], strict=True)
    return {frozenset(pair) for pair in names}


def scene_of(text: str, folder: Path, **how: Any) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(quiet=True, codegen="loops")
    file = folder / "arm.urdf"
    file.write_text(text)
    entity = scene.add(file, fixed=True, **how)
    scene.build()
    return scene, entity


def notes(scene: km.Scene) -> list[str]:
    return [d.message for d in scene.diagnostics if d.code == "sim.overlapping-links"]


def test_links_inside_each_other_do_not_collide(tmp_path: Path) -> None:
    """A rotor in the base never touches it, which is noted; the tip touches the base when it is turned onto it."""
    scene, entity = scene_of(arm(), tmp_path)
    assert touching(scene) == set()
    (note,) = notes(scene)
    assert note.startswith('1 pair of links of robot "arm" overlap in the initial configuration and do not collide')
    assert note.endswith(": base and rotor (200 mm)")
    entity.set_dofs_position([3.0, 0.0, 0.0])
    assert frozenset(("base", "tip")) in touching(scene)
    assert frozenset(("base", "rotor")) not in touching(scene)


@pytest.mark.parametrize(("choice", "expected"), [(True, {frozenset(("base", "rotor"))}), (False, set())])
def test_users_decide(tmp_path: Path, choice: bool, expected: set[frozenset[str]]) -> None:
    """All pairs that the file allows, or none within the robot."""
    scene, entity = scene_of(arm(), tmp_path, self_collision=choice)
    assert touching(scene) == expected
    assert notes(scene) == []
    entity.set_dofs_position([3.0, 0.0, 0.0])
    assert (frozenset(("base", "tip")) in touching(scene)) is choice
    with pytest.raises(km.KinemaError, match="self_collision: expected True or False, not 'no'"):
        km.Scene(quiet=True).add(tmp_path / "arm.urdf", self_collision="no")  # type: ignore[arg-type]


def test_links_that_touch_collide(tmp_path: Path) -> None:
    """Up to 1 mm: parts are drawn touching; a limit beyond the first position counts with its bound."""
    for x, expected in ((0.1999, set()), (0.1985, {frozenset(("base", "rotor"))})):
        scene, _ = scene_of(arm(rotor_at=f"{x} 0 -.2"), tmp_path)
        assert bool(notes(scene)) is bool(expected)
        assert touching(scene) == ({frozenset(("base", "rotor"))} if not expected else set())
    apart, _ = scene_of(arm(rotor_at="0 0 -.2", lower=1.0), tmp_path)
    assert notes(apart), "it turns about its own joint"
    bent, _ = scene_of(arm(rotor_at="0 0 -.2", tip_at="0 0 -.1", lower=1.0), tmp_path)
    assert "base and tip" in notes(bent)[0]


@pytest.mark.parametrize(
    "shape",
    ['<cylinder radius=".1" length=".2"/>', BOX, '<mesh filename="cube.obj"/>'],
    ids=["cylinder", "box", "mesh"],
)
def test_kinds_of_shapes(tmp_path: Path, shape: str) -> None:
    """Depth of a box, a cylinder and a mesh whose centre is 0.15 m above that of the base of 0.2 m."""
    corners = [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)]
    faces = "1 3 4 2", "5 6 8 7", "1 2 6 5", "3 7 8 4", "1 5 7 3", "2 4 8 6"
    text = "".join("v {} {} {}\n".format(*c) for c in corners) + "".join(f"f {f}\n" for f in faces)
    (tmp_path / "cube.obj").write_text(text)
    scene, _ = scene_of(arm(rotor_at="0 0 .6", tip=shape, tip_at="0 0 -.05"), tmp_path)
    assert "base and tip (50 mm)" in notes(scene)[0]


def test_variants_have_the_pairs_of_the_first(tmp_path: Path) -> None:
    """Robots of one structure: what overlaps in the first does not collide in any of them."""
    files = []
    for i, x in enumerate(("0", ".5")):
        files.append(tmp_path / f"arm{i}.urdf")
        files[-1].write_text(arm(rotor_at=f"{x} 0 -.2"))
    for order in (files, files[::-1]):
        scene = km.Scene(quiet=True, codegen="loops")
        scene.add(order, fixed=True)
        scene.build(2)
        assert scene.get_contacts().n.tolist() == ([0, 0] if order is files else [0, 1])


def test_one_note_for_all_copies(tmp_path: Path) -> None:
    """Copies of one description share the pairs and the note."""
    (tmp_path / "arm.urdf").write_text(arm())
    robot = km.read(tmp_path / "arm.urdf")
    scene = km.Scene(quiet=True, codegen="loops")
    for x in range(3):
        scene.add(robot, fixed=True, pos=(2 * x, 0, 0))
    scene.add(robot, fixed=True, pos=(8, 0, 0), self_collision=True)
    scene.build()
    assert len(notes(scene)) == 1
    assert scene.get_contacts().entity_name_a[0].tolist() == ["arm_3"]


def test_other_formats_say_it_themselves(tmp_path: Path) -> None:
    """MJCF has masks and exclusions: what overlaps there collides."""
    text = """<mujoco><worldbody><body name="a"><joint/><geom size=".1"/><body name="b"><joint/><geom size=".01"
    pos="1 0 0"/><body name="c"><joint/><geom size=".1"/></body></body></body></worldbody></mujoco>"""
    scene = km.Scene(quiet=True, codegen="loops")
    scene.add(from_text(tmp_path, text))
    scene.build()
    assert touching(scene) == {frozenset("ac")}
