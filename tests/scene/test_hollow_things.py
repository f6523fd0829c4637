"""Things with hollows in scenes: a cup keeps balls, a peg stands in its hole, a nut turns down its bolt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema import geometry
from kinema.core import KinemaError
from kinema.scene.geom_arrays import GeomType
from kit.hollow_meshes import bolt, cup, nut, tray

PITCH, START = 0.012, 0.012
"""Of the thread, and how high the nut is to begin with [m]."""
BALLS = 3


def mesh(triangles: tuple[Any, Any], approximation: str = "sdf", resolution: int | None = 24) -> km.Mesh:
    vertices, faces = triangles
    return km.Mesh(vertices=vertices, faces=faces, approximation=approximation, resolution=resolution)


@pytest.fixture(scope="module")
def things() -> Any:
    """All of them in one scene, half a second later; what is fixed does not touch."""
    scene = km.Scene(dt=0.001, quiet=True, codegen="loops", cone="elliptic")
    scene.add(km.Plane())
    holder = scene.add(mesh(cup()), mass=0.2, name="cup")
    balls = [
        scene.add(km.Sphere(radius=0.012), pos=(0.02 * np.cos(2 * i), 0.02 * np.sin(2 * i), 0.03 + 0.026 * i))
        for i in range(BALLS)
    ]
    scene.add(mesh(tray((0.06, 0.06, 0.05), (0.021, 0.021), 0.02)), pos=(0.5, 0.0, 0.05), fixed=True)
    peg = scene.add(km.Box(size=(0.04, 0.04, 0.08)), pos=(0.5, 0.0, 0.07))
    scene.add(mesh(bolt(0.01, 0.003, PITCH, 4), resolution=32), pos=(0.0, 0.5, 0.1), fixed=True, friction=0.01)
    ring = scene.add(
        mesh(nut(0.0108, 0.003, PITCH, 1, 0.018), resolution=20), pos=(0.0, 0.5, 0.1 + START), friction=0.01
    )
    scene.build(2)
    turned = []
    for _ in range(10):
        scene.step(50)
        turned.append([ring.get_qpos()[0, 2], 2.0 * np.arctan2(ring.get_qpos()[0, 6], ring.get_qpos()[0, 3])])
    return scene, holder, balls, peg, np.array(turned)


def test_a_cup_keeps_its_balls(things: Any) -> None:
    """On its floor, within its walls, hardly deeper than hard contacts are; it stays where it is."""
    scene, holder, balls, _, _ = things
    assert not scene.get_error_envs_mask().any()
    np.testing.assert_allclose(holder.get_pos(), 0.0, atol=1.5e-3)
    for ball in balls:
        at, radius = ball.get_pos()[0], 0.012
        assert np.hypot(at[0], at[1]) + radius < 0.04 + 2e-3
        assert 0.01 + radius - 2e-3 < at[2] < 0.1
    np.testing.assert_array_equal(holder.get_qpos()[0], holder.get_qpos()[1])


def test_a_peg_stands_in_its_hole(things: Any) -> None:
    """On the floor of the hole, upright, within the play of half a millimetre at each side."""
    peg = things[3]
    np.testing.assert_allclose(peg.get_pos()[0], [0.5, 0.0, 0.06], atol=2e-3)
    assert abs(peg.get_quat()[0, 0]) > 0.999
    assert np.linalg.norm(peg.get_vel()[0]) < 1e-2


def test_a_nut_turns_down_its_bolt(things: Any) -> None:
    """It falls no faster than its thread lets it: a pitch for each turn, within the play between the threads."""
    heights, angles = things[4].T
    angles = np.unwrap(angles)
    assert heights[-1] < heights[1] - 0.004
    assert (np.diff(heights[2:]) < 0.0).all()
    slips = (heights - heights[1]) - PITCH * (angles - angles[1]) / (2.0 * np.pi)
    assert np.abs(slips[1:]).max() < 1.5e-3


def test_distance_fields_under_the_names_of_the_contract(things: Any) -> None:
    """They are those of the shapes; of other shapes there is none."""
    info, geoms = things[0].sim.rigid_solver.sdf_info, things[0].sim.rigid_solver.geoms_info
    fields = np.flatnonzero(geoms.type == GeomType.DISTANCE_FIELD).tolist()
    assert len(fields) == 4
    vertices, faces = cup()
    exact = geometry.build_signed_distance_field(geometry.MeshData(vertices, faces), resolution=24)
    mine = next(i for i in fields if geoms.link_idx[i] >= 0 and info.sdf_cell_size[i] == pytest.approx(exact.cell_size))
    start = info.sdf_cell_start[mine]
    np.testing.assert_array_equal(info.sdf_res[mine], exact.n_nodes)
    np.testing.assert_allclose(info.T_mesh_to_sdf[mine], exact.T_mesh_to_sdf)
    np.testing.assert_array_equal(info.geoms_sdf_val[start : start + len(exact.values)], exact.values)
    np.testing.assert_array_equal(info.geoms_sdf_grad[start : start + len(exact.values)], exact.gradients)
    np.testing.assert_array_equal(
        info.geoms_sdf_closest_vert[start : start + len(exact.values)] - geoms.vert_start[mine], exact.closest_vertices
    )
    assert info.sdf_max[mine] == exact.max_distance
    assert info.sdf_res[[i for i in range(len(geoms.type)) if i not in fields]].sum() == 0
    assert len(info.geoms_sdf_val) == sum(info.sdf_res.prod(axis=1))


def kinds_of(approximation: str, resolution: int | None = 8, **how: Any) -> tuple[list[str], list[str]]:
    """What a cup touches as, and what is said of it."""
    scene = km.Scene(quiet=True, nonconvex=how.pop("nonconvex", None))
    scene.add(km.Plane())
    scene.add(mesh(cup(sides=8), approximation, resolution), **how)
    scene.build()
    return list(scene.built.model.geoms.types[1:]), [d.message for d in scene.diagnostics if d.code == "sim.hull"]


def test_which_meshes_keep_their_hollows() -> None:
    """As the file asks for, or as the scene or the entity says; else the hull, and that is said."""
    assert kinds_of("sdf") == (["distance field"], [])
    assert kinds_of("none")[0] == ["distance field"]
    kinds, said = kinds_of("convexHull")
    assert kinds == ["mesh"]
    assert "collides as its convex hull, which has" in said[0]
    assert kinds_of("convexHull", nonconvex="sdf") == (["distance field"], [])
    assert kinds_of("convexHull", nonconvex="hull") == (["mesh"], [])
    assert kinds_of("boundingCube", nonconvex="sdf") == (["box"], [])
    scene = km.Scene(quiet=True, nonconvex="sdf")
    scene.add(km.Plane())
    block = geometry.box(np.ones(3))
    scene.add(km.Mesh(vertices=block.vertices, faces=block.faces, approximation="none"))
    scene.build()
    assert scene.built.model.geoms.types[1:] == ("mesh",)


def test_a_shape_without_a_name_is_told_apart(tmp_path: Path) -> None:
    """By its number on its link, or in the world."""
    vertices, faces = cup(sides=8)
    numbers = {name: " ".join(map(str, x.ravel())) for name, x in (("vertex", vertices), ("face", faces))}
    file = tmp_path / "cups.xml"
    file.write_text(
        f"""<mujoco><asset><mesh name="cup" vertex="{numbers["vertex"]}" face="{numbers["face"]}"/></asset><worldbody>
        <geom type="plane" size="1 1 1"/><geom type="mesh" mesh="cup"/><body name="hand" pos="0 0 1"><freejoint/>
        <geom size=".01"/><geom size=".02"/><geom type="mesh" mesh="cup"/></body></worldbody></mujoco>""",
        encoding="utf-8",
    )
    scene = km.Scene(quiet=True)
    scene.add(file)
    scene.build()
    said = [d.message.split(" is not")[0] for d in scene.diagnostics if d.code == "sim.hull"]
    assert sorted(said) == ["the mesh of shape 2 of the world", 'the mesh of shape 3 of link "hand"']


def test_words_that_mean_nothing_are_refused() -> None:
    """One sentence each."""
    with pytest.raises(KinemaError, match="nonconvex: 'hollow' is none of hull, decompose, sdf"):
        km.Scene(nonconvex="hollow")
    with pytest.raises(KinemaError, match="Mesh: resolution: expected a whole number"):
        km.Scene().add(mesh(cup(), resolution=0))
    scene = km.Scene(quiet=True)
    scene.add(km.Plane())
    scene.add(mesh(cup(), resolution=1))
    scene.build()
    assert any("between 2 and 500 cells" in d.message for d in scene.diagnostics if d.code == "sim.no-contact")
