"""Playing in the viewer, without a browser: what is drawn is what is simulated."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import kinema as km
from kinema.apps.viewer import ElementRef, Viewer, view
from kinema.apps.viewer.displayed_model import to_numpy
from kinema.apps.viewer.drag import DragSpring
from kinema.apps.viewer.scene_view import HIDDEN_HEIGHT
from kinema.apps.viewer.simulation import (
    BASE_FIXED,
    BASE_FREE,
    CONTROL_SOURCES,
    NO_CONTROL,
    RANDOM,
    SLIDERS,
    has_unspecified_base,
)
from kinema.core import KinemaError
from kit.shown import LEVER, needs_viser


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    needs_viser()
    file = tmp_path_factory.mktemp("played") / "lever.urdf"
    file.write_text(LEVER)
    viewer = view(file, n_envs=2, port=0, watch=False)
    yield viewer
    viewer.close()


def test_what_is_drawn_is_what_is_simulated(viewer: Viewer) -> None:
    viewer.move_joint("turn", np.array([0.5]))
    viewer.player.step(20)
    viewer.refresh()
    exhibit = viewer.models[0]
    assert exhibit.entity is not None
    assert viewer.player.scene is not None
    assert viewer.player.scene.time == pytest.approx(20 * viewer.player.scene.dt)
    angle = float(exhibit.entity.get_qpos()[0, 0])
    assert angle == pytest.approx(0.5, abs=0.2), "it goes on from where the slider was"
    expected = exhibit.description.link_poses({"turn": angle})["arm"]
    node = viewer.scene_view.nodes[0, "arm"]
    np.testing.assert_allclose(node.position, expected.position, atol=1e-6)
    np.testing.assert_allclose(node.wxyz, expected.quaternion, atol=1e-6)
    slider = viewer.joint_panel.sliders["turn"][1]
    assert slider.value == pytest.approx(angle, abs=0.01)


def test_a_slider_moves_what_is_simulated(viewer: Viewer) -> None:
    viewer.move_joint("turn", np.array([-0.4]))
    entity = viewer.models[0].entity
    assert entity is not None
    assert entity.get_qpos()[0, 0] == pytest.approx(-0.4, abs=1e-6)
    assert entity.get_qvel()[0, 0] == 0.0


def test_a_pull_draws_the_link_to_the_pointer(viewer: Viewer) -> None:
    """The grabbed point of an arm that no motor holds ends nearer to the pointer; a held arm yields a little."""
    exhibit, player = viewer.models[0], viewer.player
    distance: dict[str, float] = {}
    for source in (SLIDERS, NO_CONTROL):
        player.reset()
        player.control_inputs.source = source
        player.mark_commands_changed()
        player.step(300 if source == SLIDERS else 1)  # until it is where the slider is
        pull = DragSpring.attach(exhibit, "arm", 0, np.array([0.4, -0.1, 0.2]))
        pull.target = pull.attachment_point + np.array([0.0, 0.0, 0.3])
        player.set_drag_spring(pull)
        player.step(200)
        distance[source] = float(np.linalg.norm(pull.target - pull.attachment_point))
        player.set_drag_spring(None)
        assert player.drag_spring is None
    player.control_inputs.source = SLIDERS
    player.mark_commands_changed()
    assert distance[NO_CONTROL] < 0.27
    assert distance[NO_CONTROL] < distance[SLIDERS] < 0.3


def test_a_pull_is_critically_damped(viewer: Viewer) -> None:
    """The effective mass of the grabbed point is the moment of inertia by the squared lever; it never overshoots."""
    exhibit, player = viewer.models[0], viewer.player
    player.reset()
    player.control_inputs.source = NO_CONTROL
    player.mark_commands_changed()
    player.step()
    spring = DragSpring.attach(exhibit, "arm", 0, np.array([0.4, -0.1, 0.2]))
    mass = 3.0 * (0.02 + 0.2**2) / 0.4**2  # of the arm about its hinge; the trace of J M^-1 J^T has one term
    assert spring.damping == pytest.approx(2.0 * np.sqrt(spring.stiffness * mass), rel=1e-3)
    spring.target = spring.attachment_point + np.array([0.0, 0.0, 0.1])
    player.set_drag_spring(spring)
    heights = []
    for _ in range(150):
        player.step(4)
        heights.append(float(spring.attachment_point[2]))
    player.set_drag_spring(None)
    player.control_inputs.source = SLIDERS
    player.mark_commands_changed()
    assert max(heights) <= heights[-1] + 1e-3
    weight = 9.81 * 0.2 / 0.4  # N at the grabbed point
    assert heights[-1] == pytest.approx(0.3 - weight / spring.stiffness, abs=2e-3)


def test_reset_goes_back_to_the_start(viewer: Viewer) -> None:
    viewer.player.step(5)
    viewer.player.reset()
    entity = viewer.models[0].entity
    assert entity is not None
    np.testing.assert_allclose(entity.get_qpos(), 0.0)
    np.testing.assert_allclose(viewer.models[0].slider_values()["turn"], 0.0)


def test_environments_stand_side_by_side(viewer: Viewer) -> None:
    viewer.choose_environment(1, side_by_side=True)
    crowd = viewer.env_grid
    assert crowd is not None
    node = crowd.nodes[0, "arm"]
    assert viewer.models[0].entity is not None
    places = viewer.models[0].entity.get_links_pos(["arm"])[:, 0] + crowd.env_offsets
    np.testing.assert_allclose(node.batched_positions, places, atol=1e-6)
    viewer.choose_environment(0, side_by_side=False)
    assert viewer.env_grid is None


def test_commands_are_drawn_within_their_limits(viewer: Viewer) -> None:
    commands = viewer.player.control_inputs
    assert [(c.label, c.lower, c.upper) for c in commands.inputs] == [("turn", -1.5, 1.5)]
    assert {SLIDERS, RANDOM, NO_CONTROL} == set(CONTROL_SOURCES)


@pytest.mark.parametrize(
    "layer", ["Collision shapes", "Inertia boxes", "Centres of mass", "Frames", "Joints and limits"]
)
def test_layers_are_made_and_hidden(viewer: Viewer, layer: str) -> None:
    viewer.set_layer(layer, True)
    handles = viewer.layers._handles[layer]
    assert handles
    assert all(h.visible for h in handles)
    viewer.set_layer(layer, False)
    assert not any(h.visible for h in handles)


def test_a_click_selects_the_link_and_then_the_shape(viewer: Viewer) -> None:
    shape = ElementRef(0, "shape", "arm", 0)
    viewer._handle_pick(shape)
    assert viewer.selected == ElementRef(0, "link", "arm")
    viewer._handle_pick(shape)
    assert viewer.selected == shape
    assert viewer.scene_view._highlight
    viewer.select(None)
    assert not viewer.scene_view._highlight


def test_a_picture_needs_somebody_who_looks(viewer: Viewer, tmp_path: Path) -> None:
    with pytest.raises(KinemaError, match="nobody looks"):
        viewer.screenshot(tmp_path / "x.png")


@pytest.mark.parametrize("out", ["numpy", "view", "torch"])
def test_a_scene_is_shown_where_it_put_things(tmp_path: Path, out: str) -> None:
    """`scene.show()`: entities stand where they were added, and move as the user steps, whatever getters return."""
    needs_viser()
    if out == "torch":
        pytest.importorskip("torch")
    (tmp_path / "lever.urdf").write_text(LEVER)
    scene = km.Scene(quiet=True, out=out)
    with pytest.raises(KinemaError, match="not built"):
        scene.show(port=0)
    entity = scene.add(tmp_path / "lever.urdf", pos=(1.0, 2.0, 0.0))
    scene.build()
    viewer = scene.show(port=0)
    try:
        np.testing.assert_allclose(viewer.scene_view.nodes[0, "stand"].position, [1.0, 2.0, 0.0], atol=1e-6)
        entity.set_qpos([[0.3]])
        viewer.update()
        assert "Stepped by a program" in viewer.simulation_panel._text.content
        np.testing.assert_allclose(
            viewer.scene_view.nodes[0, "arm"].wxyz, to_numpy(entity.get_links_quat(["arm"]))[0, 0], atol=1e-6
        )
        viewer.move_joint("turn", np.array([0.7]))
        np.testing.assert_allclose(to_numpy(entity.get_qpos()), [[0.7]], atol=1e-6)
        viewer.set_layer("Contacts", True)
        target = viewer.ik_targets.add("arm")
        assert target is not None
        viewer.ik_targets.solve(viewer.models[0])
        spring = DragSpring.attach(viewer.models[0], "arm", 0, np.add(target.gizmo.position, (0.1, 0.0, 0.0)))
        assert spring.stiffness > 0.0
        assert viewer.address in viewer._repr_html_()
    finally:
        viewer.close()


MARKED = """<mujoco><worldbody><body name="b">
  <geom size="0.1"/><site name="s" pos="0 0 0.1" rgba="1 0 0 1"/><camera name="eye" pos="0 0 0.3"/>
  <body name="c" pos="0 0 0.5"><joint name="j" axis="0 1 0"/><geom size="0.05"/><site name="t"/></body></body>
  </worldbody>
  <tendon><spatial name="cord"><site site="s"/><site site="t"/></spatial></tendon>
  <sensor><gyro name="spin" site="t"/></sensor></mujoco>"""


def test_sites_sensors_tendons_and_contacts_are_marked(tmp_path: Path) -> None:
    needs_viser()
    (tmp_path / "marked.xml").write_text(MARKED)
    viewer = view(tmp_path / "marked.xml", port=0, watch=False)
    try:
        for layer, count in (("Sites", 4), ("Sensors", 3), ("Tendons", 1)):
            viewer.set_layer(layer, True)
            assert len(viewer.layers._handles[layer]) == count
        (cord,) = viewer.layers._handles["Tendons"]
        np.testing.assert_allclose(cord.points, [[[0, 0, 0.1], [0, 0, 0.5]]], atol=1e-6)
        viewer.layers.enabled.add("Contacts")
        viewer.layers.draw_contacts(np.zeros((2, 3)), np.array([[0.0, 0.0, 4.0], [0.0, 3.0, 0.0]]))
        arrows = viewer.layers._handles["Contacts"][1]
        lengths = np.linalg.norm(arrows.points[:, 1] - arrows.points[:, 0], axis=1)
        np.testing.assert_allclose(lengths[1] / lengths[0], 0.75, rtol=1e-6)
        viewer.layers.draw_contacts(np.ones((1, 3)), np.array([[0.0, 0.0, 1.0]]))
        assert viewer.layers._handles["Contacts"][1] is arrows
        np.testing.assert_allclose(arrows.points[0, 0], 1.0)
        viewer.layers.draw_contacts(np.zeros((0, 3)), np.zeros((0, 3)))
        assert "Contacts" not in viewer.layers._handles
    finally:
        viewer.close()


BALL = """<robot name="ball"><link name="ball"><inertial><mass value="1"/>
  <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><sphere radius="0.05"/></geometry></collision></link></robot>"""


def test_contacts_are_marked_where_their_environment_is_drawn() -> None:
    needs_viser()
    scene = km.Scene(quiet=True)
    scene.add(km.Plane())
    scene.add(km.Sphere(0.05), pos=(0.2, 0.0, 0.049))
    scene.build(n_envs=4)
    viewer = scene.show(port=0)
    try:
        assert viewer.differences == []  # entities of a scene are not versions of one file
        viewer.set_layer("Contacts", True)
        viewer.choose_environment(3, side_by_side=True)
        assert viewer.env_grid is not None
        scene.step(20)
        viewer.update()
        points = viewer.layers._handles["Contacts"][0].points
        np.testing.assert_allclose(points, np.add(viewer.env_grid.env_offsets, [0.2, 0.0, 0.0]), atol=2e-3)
        viewer.choose_environment(3, side_by_side=False)
        np.testing.assert_allclose(viewer.layers._handles["Contacts"][0].points, [[0.2, 0.0, 0.0]], atol=2e-3)
    finally:
        viewer.close()


def test_a_scene_without_external_forces_is_compiled_again_for_a_drag() -> None:
    """Dragging one of the environments side by side pulls that one only, and keeps the state of the scene."""
    needs_viser()
    scene = km.Scene(quiet=True, gravity=(0.0, 0.0, 0.0))
    ball = scene.add(km.Sphere(0.05))
    scene.build(n_envs=2)
    viewer = scene.show(port=0)
    try:
        ball.set_pos([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]])
        scene.step()
        viewer.choose_environment(0, side_by_side=True)
        assert viewer.env_grid is not None
        drawn = viewer.env_grid.env_offsets[1] + np.array([0.0, 0.0, 2.0])
        pointer = drawn + np.array([0.3, 0.0, 0.0])
        element, drag = ElementRef(0, "link", ball.links[0].name), viewer._drag_interaction.handle_drag
        drag(element, "start", drawn, drawn, 1)
        drag(element, "update", drawn, pointer, 1)
        viewer.player.step(20)
        viewer.refresh()
        np.testing.assert_allclose(viewer._drag_interaction._line.points[0, 1], pointer)
        moved = ball.get_pos() - [[0.0, 0.0, 1.0], [0.0, 0.0, 2.0]]
        assert moved[1, 0] > 0.01
        np.testing.assert_allclose(moved[0], 0.0, atol=1e-9)
        assert scene.time == pytest.approx(21 * scene.dt)
        drag(element, "end", drawn, drawn, 1)
        viewer.refresh()
        assert viewer._drag_interaction._line is None
    finally:
        viewer.close()


def test_a_base_is_let_free_and_falls_on_the_floor_that_is_drawn(tmp_path: Path) -> None:
    """URDF does not say what holds a robot: it is bolted down, or free and stands on the floor."""
    needs_viser()
    file = tmp_path / "ball.urdf"
    file.write_text(BALL)
    viewer = view(file, port=0, watch=False)
    try:
        assert has_unspecified_base(viewer.models)
        np.testing.assert_allclose(viewer.scene_view.floor_pose.position, [0.0, 0.0, -0.05])
        viewer.player.control_inputs.source = RANDOM
        viewer.player.set_base(BASE_FREE)
        viewer.player.step(200)
        assert viewer.player.control_inputs.source == RANDOM, "what was chosen before it was built holds"
        viewer.refresh()
        np.testing.assert_allclose(viewer.scene_view.nodes[0, "ball"].position, 0.0, atol=1e-3)
        viewer.player.set_base(BASE_FIXED)
        assert viewer.player.scene is None
        assert viewer.player.ensure_built()
        assert viewer.models[0].entity is not None
        assert viewer.models[0].entity.n_dofs == 0
    finally:
        viewer.close()


def test_blocking_show_tells_the_address_and_ends_without_a_traceback(tmp_path: Path) -> None:
    """`show(block=True)` of a script prints where to look; SIGTERM closes the page and ends with status 143."""
    needs_viser()
    script = (
        "import kinema as km\ns = km.Scene(quiet=True)\ns.add(km.Sphere(0.1))\ns.build()\ns.show(block=True, port=0)\n"
    )
    program = [sys.executable, "-c", script]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "http://localhost:" in process.stdout.readline()
        process.terminate()
        assert process.wait(timeout=30) == 143
        assert process.stderr.read() == ""


def test_the_camera_follows_what_moves() -> None:
    """By the displacement of the selected link, or of the first link that is not ground."""
    needs_viser()
    scene = km.Scene(quiet=True)
    scene.add(km.Box((9.0, 9.0, 0.1)), fixed=True)
    ball = scene.add(km.Sphere(0.05))
    scene.build()
    viewer = scene.show(port=0)
    try:
        camera = SimpleNamespace(position=np.zeros(3))
        viewer.scene_view.viser = SimpleNamespace(get_clients=lambda: {0: SimpleNamespace(camera=camera)})
        viewer.update()
        viewer.follow()
        for x in (1.0, 1.0, 3.0):
            ball.set_pos([x, 0.0, 0.0])
            viewer.update()
        np.testing.assert_allclose(camera.position, [2.0, 0.0, 0.0], atol=1e-6)
        viewer.follow(False)
        ball.set_pos([5.0, 0.0, 0.0])
        viewer.update()
        np.testing.assert_allclose(camera.position, [2.0, 0.0, 0.0], atol=1e-6)
    finally:
        viewer.close()


def test_bodies_that_are_absent_are_hidden() -> None:
    needs_viser()
    scene = km.Scene(quiet=True, codegen="loops")
    scene.add(km.Plane())
    ball = scene.add(km.Sphere(0.05), pos=(0, 0, 0.5))
    scene.build(2, room=1)
    viewer = scene.show(port=0)

    def seen() -> list[bool]:
        return [node.visible for (index, _), node in sorted(viewer.scene_view.nodes.items()) if index in (1, 2)]

    try:
        assert seen() == [True, True, False, False]  # the world and the ball of both
        copy = scene.spawn(ball, envs_idx=1)
        scene.remove(ball, 0)
        viewer.update()
        assert seen() == [False] * 4
        viewer.choose_environment(1, side_by_side=False)
        assert seen() == [True] * 4
        viewer.choose_environment(0, side_by_side=True)
        heights = [viewer.env_grid.nodes[i, "sphere"].batched_positions[:, 2].tolist() for i in (1, 2)]
        assert heights == [[HIDDEN_HEIGHT, pytest.approx(0.5)], [HIDDEN_HEIGHT, pytest.approx(0.5)]]
        scene.remove(copy)
        viewer.update()
        assert viewer.env_grid.nodes[2, "sphere"].batched_positions[:, 2].tolist() == [HIDDEN_HEIGHT] * 2
    finally:
        viewer.close()
