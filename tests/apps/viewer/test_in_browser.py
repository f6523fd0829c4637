"""The viewer as people meet it: a real server, looked at with a real browser."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.apps.viewer import Viewer, view
from kinema.apps.viewer.simulation import NO_CONTROL, SLIDERS
from kit.shown import CHROMIUM, FLAGS, LEVER, needs_browser

pytestmark = pytest.mark.browser
PATIENCE = 180.0
"""Seconds; a browser without a GPU takes its time at first."""


def until(done: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, f"waited too long until {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    needs_browser()
    file = tmp_path_factory.mktemp("shown") / "lever.urdf"
    file.write_text(LEVER)
    viewer = view(file, port=0, simple_shading=True)
    yield viewer
    viewer.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    needs_browser()
    from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def errors() -> list[str]:
    return []


@pytest.fixture(scope="module")
def page(viewer: Viewer, browser: Any, errors: list[str]) -> Any:
    page = _tab(viewer, browser, errors)
    until(lambda: _red(page) is not None, "the arm is seen")
    close = page.locator(".mantine-Notification-closeButton")
    if close.count():
        close.first.click()
    return page


def _tab(viewer: Viewer, browser: Any, errors: list[str]) -> Any:
    page = browser.new_page(viewport={"width": 1000, "height": 480})
    page.set_default_timeout(1000 * PATIENCE)
    page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.goto(viewer.address)
    page.get_by_text("Simulation").wait_for()
    return page


def _red(page: Any) -> np.ndarray | None:
    """The middle of all that is red [pixels: x, y], once it is really seen."""
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB")).astype(int)
    red = (pixels[..., 0] > 120) & (pixels[..., 1] < 70) & (pixels[..., 2] < 70)
    return np.argwhere(red).mean(axis=0)[::-1] if red.sum() > 200 else None


def _tab_of(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def test_it_loads_without_a_word_of_complaint(page: Any, errors: list[str]) -> None:
    assert page.title()
    assert errors == []


def test_a_slider_moves_the_link(viewer: Viewer, page: Any) -> None:
    """Where the nodes are is what forward kinematics says, and so is what the picture shows."""
    before = _red(page)
    _tab_of(page, "Joints")
    value = page.locator("input.mantine-NumberInput-input").nth(1)  # the first is the speed
    value.fill("0.9")
    value.press("Enter")
    until(lambda: abs(viewer.models[0].slider_values()["turn"][0] - 0.9) < 0.002, "the joint has moved")
    angle = viewer.models[0].slider_values()["turn"][0]
    expected = viewer.models[0].description.link_poses({"turn": angle})["arm"]
    node = viewer.scene_view.nodes[0, "arm"]
    np.testing.assert_allclose(node.position, expected.position, atol=1e-9)
    np.testing.assert_allclose(node.wxyz, expected.quaternion, atol=1e-9)
    until(lambda: (now := _red(page)) is not None and before is not None and now[1] > before[1] + 10, "it is seen")

    client = next(iter(viewer.viser.get_clients().values()))
    wxyz = (np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0)  # looks along +y, down is -z
    image = client.get_render(240, 320, wxyz=wxyz, position=(0.0, -2.0, 0.0), fov=0.8, timeout=PATIENCE)
    rows, columns = np.nonzero((image[..., 0] > 110) & (image[..., 1:3] < 80).all(axis=2))
    middle = expected.apply([0.2, 0.0, 0.0])
    scale = 120.0 / np.tan(0.4) / (middle[1] + 2.0 - 0.03)
    assert columns.mean() == pytest.approx(160.0 + scale * middle[0], abs=3.0)
    assert rows.mean() == pytest.approx(120.0 - scale * middle[2], abs=3.0)


def test_two_tabs_see_the_same(viewer: Viewer, browser: Any, page: Any, errors: list[str]) -> None:
    other = _tab(viewer, browser, errors)
    _tab_of(other, "Joints")
    value = other.locator("input.mantine-NumberInput-input").nth(1)
    until(lambda: abs(float(value.input_value()) - 0.9) < 0.01, "the other tab has the slider there")
    other.close()


def test_a_layer_is_switched(viewer: Viewer, page: Any) -> None:
    _tab_of(page, "Layers")
    page.get_by_label("Visual", exact=True).uncheck()
    until(lambda: _red(page) is None, "the arm is gone")
    page.get_by_label("Visual", exact=True).check()
    until(lambda: _red(page) is not None, "the arm is back")
    page.get_by_label("Inertia boxes").check()
    until(lambda: "Inertia boxes" in viewer.layers.enabled, "the layer is on")


def test_a_diagnostic_highlights_its_link(viewer: Viewer, page: Any) -> None:
    _tab_of(page, "Checks")
    page.locator("[id^=kinema-diagnostic]").filter(has_text="heavy").first.click()
    until(lambda: viewer.selected is not None, "something is selected")
    assert viewer.selected is not None
    assert (viewer.selected.kind, viewer.selected.name) == ("link", "heavy")
    assert viewer.scene_view._highlight


def test_selection_goes_both_ways(viewer: Viewer, page: Any) -> None:
    """A click on the picture marks the link in the tree; one on the tree highlights it in the picture."""
    _tab_of(page, "Robot")
    place = _red(page)
    assert place is not None
    page.mouse.click(*place)
    until(lambda: viewer.selected is not None and viewer.selected.name == "arm", "the arm is selected")
    assert viewer.selected is not None
    number = viewer.tree_panel.elements.index(viewer.selected)
    until(lambda: f"kinema-part-{number}" in viewer.tree_panel._style.content, "the tree marks it")
    page.mouse.click(*place)
    until(lambda: viewer.selected is not None and viewer.selected.kind == "shape", "its shape is selected")
    assert viewer.selected is not None
    page.locator(f"#kinema-part-{viewer.tree_panel.elements.index(viewer.selected)}").wait_for()  # it was folded away
    page.locator("[id^=kinema-part]").filter(has_text="stand").first.click()
    until(lambda: viewer.selected is not None and viewer.selected.name == "stand", "the stand is selected")


def test_play_moves_and_drag_pulls(viewer: Viewer, page: Any) -> None:
    viewer.select(None)
    page.get_by_role("button", name="Play", exact=True).click()
    until(lambda: viewer.player.scene is not None and viewer.player.scene.time > 0.1, "it plays")
    arm = viewer.models[0].entity
    assert arm is not None
    page.get_by_role("button", name="Play", exact=True).hover()
    place = _red(page)
    assert place is not None
    with viewer.player.lock:
        held = float(arm.get_qpos()[0, 0])
    page.keyboard.down("Control")
    page.mouse.move(*place)
    page.mouse.down()
    page.mouse.move(place[0], place[1] - 30, steps=4)
    page.mouse.move(place[0], place[1] - 120, steps=8)
    until(lambda: viewer.player.drag_spring is not None, "somebody pulls")
    viewer.player.control_inputs.source = NO_CONTROL  # gains of the arm hold it
    viewer.player.mark_commands_changed()
    until(lambda: viewer.models[0].slider_values()["turn"][0] < held - 0.05, "the arm gives way, upwards")
    page.mouse.up()
    page.keyboard.up("Control")
    until(lambda: viewer.player.drag_spring is None, "it is let go")
    viewer.player.control_inputs.source = SLIDERS
    page.get_by_role("button", name="Pause", exact=True).click()
    until(lambda: not viewer.player.playing, "it is paused")


def test_keys_and_pad_command_velocities_and_leave_the_camera(viewer: Viewer, page: Any) -> None:
    """While something is driven, W is a command and not a motion of the camera; released, the command is zero."""
    _tab_of(page, "Control")
    page.get_by_role("combobox", name="Drive").click()
    page.get_by_role("option", name="program").click()
    page.locator("#kinema-drive").wait_for(state="attached")
    page.mouse.click(60, 440)
    camera = next(iter(viewer.viser.get_clients().values())).camera
    before = np.array(camera.position)
    page.keyboard.down("w")
    until(lambda: viewer.velocity_command[0] == 0.5, "the robot is told to go")
    page.keyboard.up("w")
    until(lambda: not viewer.velocity_command.any(), "the key is released")
    np.testing.assert_allclose(camera.position, before)
    page.locator("#kinema-pad").scroll_into_view_if_needed()
    box = page.locator("#kinema-pad").bounding_box()
    page.mouse.move(box["x"] + 45, box["y"] + 45)
    page.mouse.down()
    page.mouse.move(box["x"], box["y"] + 45, steps=3)
    until(lambda: viewer.velocity_command[3] > 0.9, "it is told to turn left")
    page.mouse.up()
    until(lambda: not viewer.velocity_command.any(), "the pad is let go")
    page.evaluate("navigator.getGamepads = () => [null, { axes: [0.05, -1, 0.5, 0] }]")  # sticks: up, and to the right
    until(lambda: np.any(viewer.velocity_command), "the gamepad is read")
    np.testing.assert_allclose(viewer.velocity_command, [0.5, 0.0, 0.0, -0.5])
    page.evaluate("navigator.getGamepads = () => []")
    until(lambda: not viewer.velocity_command.any(), "the sticks are let go")
    viewer.drive("off")


def test_a_gizmo_is_dragged(viewer: Viewer, page: Any) -> None:
    """The arm turns to where its gizmo is pulled."""
    viewer.player.reset()
    page.get_by_role("combobox", name="IK target").click()
    page.get_by_role("option", name="arm").click()
    page.get_by_role("button", name="Add", exact=True).click()
    until(lambda: viewer.ik_targets.targets, "there is a gizmo")
    (target,) = viewer.ik_targets.targets
    camera = next(iter(viewer.viser.get_clients().values())).camera
    forward = camera.look_at - camera.position
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    frame, middle = np.stack([right, np.cross(forward, right), forward]), np.array([500.0, 240.0])

    def pixel(point: Any) -> np.ndarray:
        x, y, z = frame @ (np.asarray(point) - camera.position)
        return middle + np.array([x, y]) / z * 240.0 / np.tan(camera.fov / 2)

    place, up = target.pose.position, np.array([0.0, 0.0, target.gizmo.scale])
    page.wait_for_timeout(2000)  # until it is drawn
    page.mouse.move(*pixel(place + 0.7 * up))
    page.mouse.down()
    page.mouse.move(*pixel(place + 1.2 * up), steps=8)
    until(lambda: target.is_dragged, "the gizmo is dragged")
    page.mouse.up()
    until(lambda: not target.is_dragged, "the gizmo is released")
    viewer.ik_targets.remove_all()


def test_a_picture_is_coarser_while_it_is_slow(viewer: Viewer, page: Any) -> None:
    """A browser that is kept from drawing gets fewer pixels to draw, and all of them again once nothing moves."""

    def share() -> float:
        drawn = "Math.max(...[...document.querySelectorAll('canvas')].map(c => c.width / c.clientWidth))"
        return page.evaluate(f"{drawn} / devicePixelRatio")

    until(lambda: share() > 0.99, "the picture is fine")
    brake = page.context.new_cdp_session(page)
    brake.send("Emulation.setCPUThrottlingRate", {"rate": 20})
    page.get_by_role("button", name="Play", exact=True).click()
    viewer.player.control_inputs.source = "random"
    until(lambda: share() < 0.9, "it is coarse")
    brake.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    page.get_by_role("button", name="Pause", exact=True).click()
    until(lambda: share() > 0.99, "it is fine again")


def test_fifty_megabytes_of_textures_load(browser: Any, tmp_path: Path) -> None:
    """Four images of noise, which cannot be packed, on four boards; all are seen, and nobody complains."""
    errors: list[str] = []
    viewer = view(_boards(tmp_path), port=0, simple_shading=True, watch=False)
    try:
        assert sum(file.stat().st_size for file in tmp_path.glob("*.png")) > 50e6
        page = _tab(viewer, browser, errors)
        until(lambda: _colored(page) > 0.05, "the images are seen")
        assert errors == []
        page.close()
    finally:
        viewer.close()


def _boards(folder: Path) -> Path:
    """A robot of four boards side by side, each with an image of its own."""
    from PIL import Image

    draw = np.random.default_rng(0)
    links = []
    for i in range(4):
        pixels = draw.integers(0, 256, (2100, 2100, 3), dtype=np.uint8) // [1, 8, 8]  # reddish
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{i}.png", compress_level=0)
        (folder / f"{i}.mtl").write_text(f"newmtl paint\nKd 1 1 1\nmap_Kd {i}.png\n")
        corners = "v 0 0 0\nv 0 1 0\nv 0 1 1\nv 0 0 1\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\n"
        (folder / f"{i}.obj").write_text(f"mtllib {i}.mtl\n{corners}usemtl paint\nf 1/1 2/2 3/3 4/4\n")
        mesh = f'<visual><origin xyz="0 {i} 0"/><geometry><mesh filename="{i}.obj"/></geometry></visual>'
        links.append(f'<link name="board{i}">{mesh}</link>')
    joints = [
        f'<joint name="j{i}" type="fixed"><parent link="board0"/><child link="board{i}"/></joint>' for i in (1, 2, 3)
    ]
    file = folder / "boards.urdf"
    file.write_text(f'<robot name="boards">{"".join(links + joints)}</robot>')
    return file


def _colored(page: Any) -> float:
    """The share of the page that is reddish."""
    from PIL import Image

    pixels = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB")).astype(int)
    return float((pixels[..., 0] - pixels[..., 1] > 40).mean())


def test_a_changed_file_is_read_again(viewer: Viewer, page: Any) -> None:
    file = Path(viewer.models[0].description.source)
    file.write_text(LEVER.replace('lower="-1.5"', 'lower="-1.25"'))
    until(lambda: viewer.models[0].joints["turn"].axes[0].lower == -1.25, "the new limits are known")
    until(lambda: page.get_by_text("Not simulated yet").count() == 1, "the page is made anew")
