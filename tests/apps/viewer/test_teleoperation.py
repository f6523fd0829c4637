"""Gizmos that links follow, velocity commands of keyboard and gamepad, and plots of any quantity; without a browser."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import kinema as km
from kinema.apps.viewer import ElementRef, Viewer, view
from kinema.apps.viewer.displayed_model import DisplayedModel
from kinema.apps.viewer.panels.plot_panel import quantity_names, read_quantity
from kinema.apps.viewer.simulation import BASE_FREE, servo_kind
from kinema.apps.viewer.teleoperation import VelocityCommand, Wheel, find_wheels
from kinema.core import KinemaError
from kinema.description import Actuator, Transmission
from kinema.read import read
from kit.shown import needs_viser

ARM = """<mujoco><compiler angle="radian"/><worldbody><body name="upper"><joint name="a" axis="0 1 0" damping="1"/>
  <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.03" mass="0.5"/><body name="fore" pos="0.5 0 0">
  <joint name="b" axis="0 1 0" range="-2.5 2.5" damping="1"/>
  <geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.02" mass="0.3"/>
  <site name="tip" pos="0.4 0 0"/></body></body></worldbody>
  <actuator><position joint="a" kp="200" kv="20"/><position joint="b" kp="200" kv="20" gear="2"/></actuator>
  <sensor><jointpos name="angle" joint="b"/><framepos name="where" objtype="site" objname="tip"/></sensor></mujoco>"""

WHEEL = """<link name="{0}"><inertial><mass value="0.5"/>
  <inertia ixx="0.001" iyy="0.001" izz="0.001" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin rpy="1.5708 0 0"/><geometry><cylinder radius="0.1" length="0.04"/></geometry></collision></link>
  <joint name="{0}_joint" type="continuous"><parent link="base"/><child link="{0}"/>
  <origin xyz="0 {1} 0"/><axis xyz="0 {2} 0"/>
  <limit effort="20" velocity="30"/></joint>"""
CART = f"""<robot name="cart"><link name="base"><inertial><mass value="5"/>
  <inertia ixx="0.05" iyy="0.05" izz="0.05" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="0 0 0.05"/><geometry><box size="0.3 0.2 0.06"/></geometry></collision>
  <collision><origin xyz="-0.1 0 -0.068"/><geometry><sphere radius="0.03"/></geometry></collision>
  <collision><origin xyz="0.1 0 -0.068"/><geometry><sphere radius="0.03"/></geometry></collision></link>
  {WHEEL.format("left", 0.15, 1)}{WHEEL.format("right", -0.15, -1)}</robot>"""
"""A differential drive: two wheels, the right one with its axis reversed, on two skids."""


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    needs_viser()
    file = tmp_path_factory.mktemp("driven") / "arm.xml"
    file.write_text(ARM)
    viewer = view(file, port=0, watch=False)
    yield viewer
    viewer.close()


def _drag(target: object, phase: str) -> None:
    for callback in target.gizmo._impl_aux.update_cb:  # type: ignore[attr-defined]
        callback(SimpleNamespace(phase=phase))


def test_a_gizmo_moves_the_joints_while_paused(arm: Viewer) -> None:
    """The site is where the gizmo was dragged, and the gizmo is put back where that cannot be reached."""
    assert list(arm.ik_targets.choices()) == ["fore", "upper", "tip"], "ends of chains first, then others and sites"
    target = arm.ik_targets.add("tip")
    assert target is not None
    np.testing.assert_allclose(target.gizmo.position, [0.9, 0.0, 0.0], atol=1e-5)
    target.gizmo.position = np.array([0.6, 0.0, 0.3])
    _drag(target, "update")
    np.testing.assert_allclose(target.frame_pose(0).position, [0.6, 0.0, 0.3], atol=2e-3)
    assert arm.models[0].slider_values()["b"][0] != 0.0
    target.gizmo.position = np.array([0.0, 0.0, 3.0])
    _drag(target, "end")
    np.testing.assert_allclose(target.gizmo.position, target.frame_pose(0).position, atol=1e-6)
    held, qpos = [c.value for c in arm.player.control_inputs.inputs], arm.models[0].entity.get_qpos()[0]  # type: ignore[union-attr]
    np.testing.assert_allclose(held, qpos * [1, 2], atol=1e-6, err_msg="Play holds the pose")
    assert float(np.linalg.norm(target.gizmo.position)) < 0.91
    arm.ik_targets.remove_all()


def test_a_gizmo_sets_position_targets_while_playing(arm: Viewer) -> None:
    """Servos go where the gizmo is, by the gear of their actuators; the sliders show it."""
    player = arm.player
    player.reset()
    target = arm.ik_targets.add("tip")
    assert target is not None
    player.playing = True  # without waking the thread: steps are ours
    try:
        target.gizmo.position = np.array([0.6, 0.0, 0.3])
        _drag(target, "update")
        player.step(1500)
        np.testing.assert_allclose(target.frame_pose(0).position, [0.6, 0.0, 0.3], atol=0.03)
        inputs = player.control_inputs.inputs
        assert [c.servo for c in inputs] == ["position", "position"]
        qpos = arm.models[0].entity.get_qpos()[0]  # type: ignore[union-attr]
        np.testing.assert_allclose([c.value for c in inputs], [qpos[0], 2.0 * qpos[1]], atol=0.1)
        arm.command_panel.refresh()
        np.testing.assert_allclose([s.value for s in arm.command_panel._handles], [c.value for c in inputs], atol=2e-3)
    finally:
        player.playing = False
        arm.ik_targets.remove_all()
        player.reset()


def test_keys_move_a_gizmo(arm: Viewer) -> None:
    """Reports of a browser while paused: up at 0.5 m/s for 20 times 0.05 s, at full deflection."""
    player = arm.player
    player.reset()
    target = arm.ik_targets.add("tip")
    assert target is not None
    arm.move_joint("b", np.array([1.0]))
    start = np.array(target.gizmo.position)
    arm.drive("IK target")
    url = f"{arm.address}kinema/drive?command=-1,0,0,0"
    for _ in range(4):
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert answer.status == 204
    np.testing.assert_allclose(target.gizmo.position - start, [-0.1, 0.0, 0.0], atol=2e-3)
    assert "Keys drive" in arm.simulation_panel.drive_mark.content
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(urllib.request.Request(url, headers={"Sec-Fetch-Site": "cross-site"}), timeout=10)
    arm.drive("off")
    assert arm.simulation_panel.drive_mark.content == ""
    arm.ik_targets.remove_all()


def test_a_command_ends_with_its_reports() -> None:
    """Keys that are held are reported 20 times a second; a page that is closed does not drive on."""
    now = [10.0]
    command = VelocityCommand(clock=lambda: now[0])
    assert not command.value.any()
    command.handle_report("command=1,0,0,-0.5")
    np.testing.assert_allclose(command.value, [0.5, 0.0, 0.0, -0.5])
    for nonsense in ("", "command=1", "command=a,b,c,d", "command=nan,0,0,0", "command=1,2,3,4,5"):
        command.handle_report(nonsense)
        np.testing.assert_allclose(command.value, [0.5, 0.0, 0.0, -0.5])
    command.handle_report("command=9,0,0,0")
    assert command.value[0] == 0.5
    now[0] += 1.0
    assert not command.value.any()


def test_a_cart_drives_as_commanded(tmp_path: Path) -> None:
    """Wheels are found with their radius and sign; forward speed and yaw rate are within 5 % of the command."""
    needs_viser()
    (tmp_path / "cart.urdf").write_text(CART)
    viewer = view(tmp_path / "cart.urdf", port=0, watch=False)
    try:
        wheels = find_wheels(viewer.models[0])
        assert [(w.joint, round(w.radius, 3), w.steering_joint) for w in wheels] == [
            ("left_joint", 0.1, ""),
            ("right_joint", 0.1, ""),
        ]
        np.testing.assert_allclose([w.direction for w in wheels], [[1, 0, 0], [-1, 0, 0]], atol=1e-6)
        viewer.player.set_base(BASE_FREE)
        viewer.drive(viewer.models[0].title)
        viewer._velocity_command.handle_report("command=1,0,0,1")
        viewer._velocity_command._clock = lambda: viewer._velocity_command._reported_at
        viewer.player.step(1000)
        entity = viewer.models[0].entity
        assert entity is not None
        assert np.linalg.norm(entity.get_vel()[0, :2]) == pytest.approx(0.5, rel=0.05)
        assert entity.get_ang()[0, 2] == pytest.approx(1.0, rel=0.05)
        viewer.drive("off")
        viewer.player.step(500)
        assert np.abs(entity.get_vel()).max() < 0.02, "it stops"
    finally:
        viewer.close()


def test_steered_wheels_and_casters() -> None:
    """A steered wheel points along the velocity of its centre, within its range, or rolls backwards."""
    wheel = Wheel("w", np.array([1.0, 0.5, 0.0]), np.array([1.0, 0.0, 0.0]), 0.2, "s", -1.0, (-1.0, 1.0))
    speed, angle = wheel.targets(np.array([1.0, 0.0, 0.0, 0.5]))
    assert (speed, angle) == (pytest.approx(np.hypot(0.75, 0.5) / 0.2), pytest.approx(-np.arctan2(0.5, 0.75)))
    speed, angle = wheel.targets(np.array([-1.0, 0.2, 0.0, 0.0]))
    assert (speed, angle) == (pytest.approx(-np.hypot(1.0, 0.2) / 0.2), pytest.approx(np.arctan2(0.2, 1.0)))
    assert wheel.targets(np.array([0.0, 1.0, 0.0, 0.0]))[1] == -1.0
    assert wheel.targets(np.zeros(4)) == (0.0, 0.0)


def test_wheels_under_casters_and_steering_are_told_apart(tmp_path: Path) -> None:
    bogie = """<link name="fork{0}"/><joint name="swivel{0}" type="{1}"><parent link="base"/><child link="fork{0}"/>
      <origin xyz="0.2 {2} 0"/><axis xyz="0 0 1"/><limit lower="-0.6" upper="0.6" effort="9" velocity="9"/></joint>"""
    text = CART.replace("</robot>", "")
    for side, fork in (("left", "fork1"), ("right", "fork2")):
        text = text.replace(f'parent link="base"/><child link="{side}"', f'parent link="{fork}"/><child link="{side}"')
    text += bogie.format(1, "revolute", 0.1) + bogie.format(2, "continuous", -0.1) + "</robot>"
    (tmp_path / "bogies.urdf").write_text(text)
    (wheel,) = find_wheels(DisplayedModel(0, "bogies", read(tmp_path / "bogies.urdf")))
    assert (wheel.joint, wheel.steering_joint, wheel.steering_range) == ("left_joint", "swivel1", (-0.6, 0.6))


def test_servos_are_recognised_by_their_force_law() -> None:
    def actuator(gain: float, *bias: float) -> Actuator:
        kind = "affine" if bias else "none"
        return Actuator(name="", transmission=Transmission.JOINT, target="j", gain=(gain,), bias_type=kind, bias=bias)

    kinds = [servo_kind(actuator(*x)) for x in ((5, 0, -5, -1), (5, 0, 0, -5), (5,), (5, 0, -4, 0))]
    assert kinds == ["position", "velocity", "", ""]


def test_any_quantity_is_plotted(arm: Viewer) -> None:
    """Common quantities, sensors and fields are the values of the scene; all that are offered can be read."""
    player = arm.player
    player.reset()
    player.step(5)
    scene, entity = player.scene, arm.models[0].entity
    assert scene is not None
    assert entity is not None

    def read_all(quantity: str, selected: tuple | None = None) -> tuple[list[str], np.ndarray]:
        return read_quantity(scene, [entity], quantity, 0, selected)

    labels, values = read_all("velocities")
    assert labels == ["a", "b"]
    np.testing.assert_allclose(values, entity.get_qvel()[0])
    assert read_all("velocities", (entity, "joint", "b"))[0] == ["b"]
    labels, values = read_all("links_state.vel", (entity, "link", "fore"))
    assert labels == ["fore.x", "fore.y", "fore.z"]
    np.testing.assert_allclose(values, entity.get_links_vel(["fore"])[0, 0])
    np.testing.assert_allclose(read_all("sensor where")[1], entity.get_frames_pos()[0, 0], atol=1e-6)
    np.testing.assert_allclose(read_all("sensor angle")[1], entity.get_qpos()[0, 1:], atol=1e-6)
    np.testing.assert_allclose(read_all("dofs_state.qf_actuator")[1], entity.get_dofs_control_force()[0], rtol=1e-5)
    kinetic, potential = (x[0] for x in scene.get_energy())
    np.testing.assert_allclose(read_all("energy")[1], [kinetic, potential, kinetic + potential], rtol=1e-6)
    np.testing.assert_allclose(read_all("system.kinetic_energy")[1], kinetic, rtol=1e-6)
    assert read_all("link position")[0][:2] == ["upper.x", "upper.y"]
    assert set(quantity_names(scene)) > {"off", "energy", "contact force", "sensor angle", "dofs_state.qf_bias"}


def test_a_plot_follows_the_selection(arm: Viewer) -> None:
    """Lines of the selected link, as norms if wanted; the values are saved as CSV; errors are told, not raised."""
    panel, player = arm.plot_panel, arm.player
    player.reset()
    panel._choice.value = "link velocity"
    arm.select(ElementRef(0, "link", "fore"))
    for _ in range(3):
        player.step(5)
        arm.refresh()
    assert panel._labels == ["fore.x", "fore.y", "fore.z"]
    assert len(panel._plot.data[0]) == 3
    header, *rows = panel.csv().splitlines()
    assert header == 'time,"fore.x","fore.y","fore.z"'
    assert [float(row.split(",")[0]) for row in rows] == pytest.approx([player.scene.dt * n for n in (5, 10, 15)])  # type: ignore[union-attr]
    panel._only_norm.value = True
    player.step(5)
    arm.refresh()
    assert panel._labels == ["fore"]
    arm.select(None)
    assert panel._rows == type(panel._rows)()
    notices: list[str] = []
    panel._notify = notices.append

    def fail(*_: object) -> None:
        raise KinemaError("no such field")

    panel._sample = fail  # type: ignore[method-assign]
    arm.refresh()
    assert notices == ["no such field"]
    del panel._sample
    panel._choice.value = "off"


def test_a_recording_is_sent_as_a_file(arm: Viewer, tmp_path: Path) -> None:
    """The button of the page records frames at about 60 Hz of what is stepped, and sends the file of `Scene.record`."""
    panel, player = arm.recording_panel, arm.player
    player.reset()
    sent: list[tuple[str, bytes]] = []
    client = SimpleNamespace(send_file_download=lambda name, data, **_: sent.append((name, data)))
    panel.choice.value = "states (.npz)"
    panel.toggle(client)
    assert panel.button.label == "Stop and save"
    player.step(40)
    panel.toggle(client)
    assert panel.button.label == "Start recording"
    ((name, data),) = sent
    (tmp_path / name).write_bytes(data)
    arrays = np.load(tmp_path / "kinema.npz")
    np.testing.assert_allclose(np.diff(arrays["time"]), 0.016, atol=1e-9)
    assert arrays["qpos"].shape == (6, 1, 2)


def test_a_program_reads_the_command_and_is_dragged(arm: Viewer) -> None:
    """Drags of a scene that a program steps wait for `update()`, which applies the spring to the next steps."""
    player, scene, drag = arm.player, arm.player.scene, arm._drag_interaction
    assert scene is not None
    player.reset()
    arm.drive("program")
    arm._velocity_command.handle_report("command=0,0,0,1")
    np.testing.assert_allclose(arm.velocity_command, [0, 0, 0, 1])
    arm.drive("off")
    with pytest.raises(KinemaError, match="none of off, IK target, program"):
        arm.drive("car")
    callbacks: list = []
    handle = SimpleNamespace(on_drag=lambda *_, **__: callbacks.append)
    drag.enable(handle, ElementRef(0, "link", "fore"))
    arm.update()
    start, end = (0.9, 0.0, 0.0), (0.9, 0.0, 0.5)
    event = SimpleNamespace(phase="start", start_position=start, end_position=end, instance_index=None)
    with pytest.raises(StopIteration):
        callbacks[0](event).send(None)
    assert player.drag_spring is None
    arm.update()
    assert player.drag_spring is not None
    for _ in range(10):
        scene.step(10)
        arm.update()
    assert player.drag_spring.attachment_point[2] > 0.02
    player.set_drag_spring(None)
    drag.is_deferred = False


def test_a_kinematic_body_follows_its_gizmo() -> None:
    """At once while paused; while playing at a velocity by which it carries a box. Forces do not move it."""
    needs_viser()
    scene = km.Scene(quiet=True)
    tray = scene.add(km.Box((0.6, 0.6, 0.1)), kinematic=True, name="tray")
    box = scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0.0, 0.0, 0.1), name="load")
    scene.build()
    viewer = scene.show(port=0)
    try:
        assert list(viewer.ik_targets.choices()) == ["tray: box"]
        target = viewer.ik_targets.add("tray: box")
        assert target is not None
        target.gizmo.position = np.array([0.0, 0.0, -0.001])
        _drag(target, "update")
        np.testing.assert_allclose(tray.get_pos(), [[0.0, 0.0, -0.001]], atol=1e-6)
        viewer.player.playing = True
        for i in range(20):
            target.gizmo.position = np.array([0.002 * i, 0.0, -0.001])
            _drag(target, "update")
            viewer.player.step(20)
        viewer.player.playing = False
        np.testing.assert_allclose(tray.get_pos(), [[0.038, 0.0, -0.001]], atol=2e-3)
        np.testing.assert_allclose(box.get_pos(), [[0.038, 0.0, 0.099]], atol=4e-3)
        notices: list[str] = []
        viewer.notify = notices.append
        viewer._drag_interaction.handle_drag(ElementRef(0, "link", "box"), "start", np.zeros(3), np.zeros(3))
        assert "not moved by forces" in notices[0]
    finally:
        viewer.close()
