"""Published pages in Chromium: they move, contacts are stable, parts can be dragged, and states are those of Python."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.apps import learn
from kit.assets import EXAMPLES, assets
from kit.shown import CHROMIUM, FLAGS, needs_browser

pytestmark = [pytest.mark.browser, pytest.mark.slow("a browser without a GPU")]
SIZE = (900, 600)
PLACE_OF_LINK = """(link) => {
  const { camera, links } = kinema.view;
  const box = new THREE.Box3().expandByObject(links.find((node) => node.userData.link === link));
  const place = box.getCenter(new THREE.Vector3()).project(camera);
  return [(place.x + 1) / 2 * innerWidth, (1 - place.y) / 2 * innerHeight];
}"""
STATE_AFTER_200_STEPS = """() => {
  const simulation = kinema.library.createSimulation();
  simulation.step(200);
  return [[...simulation.state.qpos, ...simulation.state.vel], simulation.state.max_n_contacts[0]];
}"""


@dataclass(slots=True, eq=False)
class Published:
    """A site, and the scene that it was made of."""

    site: km.PublishedSite
    scene: km.Scene
    grabbed: str
    """Name of a link that is grabbed in the middle of its shapes."""


def arm_scene() -> tuple[km.Scene, str]:
    scene = km.Scene(precision="double", quiet=True)
    arm = scene.add(EXAMPLES / "arm/arm.urdf", fixed=True)
    scene.add(km.Plane())
    scene.add(km.Box((0.3, 0.3, 0.3)), pos=(0.6, 0.0, 0.2))
    scene.build(external_forces=True)
    arm.control_dofs_position(arm.get_dofs_position())
    return scene, "forearm_link"


def go2_scene() -> tuple[km.Scene, str]:
    scene = km.Scene(precision="double", quiet=True)
    go2 = scene.add(assets("mjcf/unitree_go2/go2_scene.xml"))
    for i in range(4):
        height = 0.06 * (i + 1)
        scene.add(km.Box((0.3, 2.0, height)), pos=(0.1 + 0.3 * i, 0.0, height / 2), fixed=True)
    scene.build(external_forces=True)
    scene.reset(keyframe=go2.keyframe_names[0])
    q = go2.get_qpos()
    q[:, 2] += 0.25
    go2.set_qpos(q)
    return scene, go2.links[0].name


def gripper_scene() -> tuple[km.Scene, str]:
    scene = km.Scene(precision="double", quiet=True)
    gripper = scene.add(EXAMPLES / "gripper/gripper.sdf", fixed=True)
    scene.build(external_forces=True)
    driver = gripper.get_joint("left_driver_joint").dofs_idx
    gripper.set_dofs_kp([2.0], driver)
    gripper.set_dofs_kv([0.1], driver)
    gripper.control_dofs_position([[0.4]], driver)
    return scene, "left_tip"


SCENES: dict[str, Callable[[], tuple[km.Scene, str]]] = {"arm": arm_scene, "go2": go2_scene, "gripper": gripper_scene}


@pytest.fixture(scope="module", params=list(SCENES))
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Published:
    needs_browser()
    scene, grabbed = SCENES[request.param]()
    return Published(km.publish(scene, tmp_path_factory.mktemp(request.param)), scene, grabbed)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    needs_browser()
    from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), headless=True, args=FLAGS)
        yield browser
        browser.close()


def open_page(browser: Any, address: str, until: str = "window.kinema && window.kinema.firstMotion") -> Any:
    """A tab with a page that moves, or of which something else is true."""
    tab = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
    tab.complaints = []
    tab.on("console", lambda message: tab.complaints.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: tab.complaints.append(str(error)))
    tab.goto(address)
    tab.wait_for_function(until)
    return tab


def test_a_page_simulates_as_python_does_and_can_be_dragged(published: Published, browser: Any) -> None:
    tab, scene = open_page(browser, published.site.page.as_uri()), published.scene
    since_load = tab.evaluate("kinema.firstMotion - performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert since_load < 2000
    assert tab.evaluate("kinema.measure(1)") > 1

    found, n_contacts = tab.evaluate(STATE_AFTER_200_STEPS)
    scene.step(200)
    engine = scene.built.engine
    expected = np.concatenate([engine.read_array(name)[:, 0] for name in ("qpos", "vel")])
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert n_contacts == engine.read_array("max_n_contacts")[0, 0]

    started = tab.evaluate("kinema.simulation.time")
    tab.wait_for_timeout(3000)
    assert tab.evaluate("kinema.simulation.time") > started + 1.5
    tab.evaluate("kinema.step(1500)")
    rest = "[kinema.failed, Math.max(...kinema.simulation.state.vel.map(Math.abs))]"
    failed, speed = tab.evaluate(rest)
    assert not failed
    assert speed < 0.05

    link = list(scene.built.model.links.names).index(published.grabbed)
    x, y = tab.evaluate(PLACE_OF_LINK, link)
    tab.mouse.move(x, y)
    tab.mouse.down()
    link = tab.evaluate("kinema.spring && kinema.spring.link")  # it, or one in front of it
    assert link is not None
    before = tab.evaluate(f"kinema.position({link})")
    tab.mouse.move(x + 80, y - 60, steps=4)
    tab.wait_for_timeout(1500)
    pulled = tab.evaluate(f"kinema.position({link})")
    tab.mouse.up()
    assert tab.evaluate("kinema.spring") is None
    assert np.linalg.norm(np.subtract(pulled, before)) > 0.01
    assert not tab.evaluate("kinema.failed")

    tab.screenshot(path=str(published.site.page.with_name("dragged.png")))
    tab.click("#reset")
    tab.click("#play")
    assert tab.evaluate("kinema.simulation.time") < 1
    sizes = {kind: path.stat().st_size for kind, path in published.site.files.items()}
    assert sum(sizes.values()) - sizes["visuals"] * (1 + 4 / 3) < 5e6
    assert len(np.unique(np.frombuffer(tab.screenshot(type="png"), np.uint8))) == 256  # no empty picture
    assert tab.complaints == []
    tab.close()


def test_sliders_and_plots_of_a_page_on_a_server(browser: Any, tmp_path: Path) -> None:
    site = km.publish(EXAMPLES / "cartpole/cartpole.xml", tmp_path)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab = open_page(browser, f"http://127.0.0.1:{server.server_port}/{site.page.name}")
        assert tab.evaluate("window.kinemaFiles") is None  # fetched
        position = tab.evaluate("kinema.simulation.state.qpos[0]")
        tab.evaluate(
            "() => { const slider = document.querySelector('#sliders input'); slider.value = slider.max;"
            " slider.dispatchEvent(new Event('input')); }"
        )
        tab.click("text=Plots")
        tab.select_option("#quantity", "coordinates")
        tab.wait_for_timeout(1500)
        assert abs(tab.evaluate("kinema.simulation.state.qpos[0]") - position) > 0.01
        drawn = "() => { const c = document.getElementById('plot'); return c.getContext('2d')"
        drawn += ".getImageData(0, 0, c.width, c.height).data.filter((x) => x).length; }"
        assert tab.evaluate(drawn) > 100
        assert tab.complaints == []
        tab.close()
        server.shutdown()


def test_a_policy_acts_on_a_page_as_in_python(browser: Any, tmp_path: Path) -> None:
    policy = learn.Policy.load(EXAMPLES / "quadruped/walk.npz")
    site = km.publish(None, tmp_path, policy=policy, task="walk")
    tab = open_page(browser, f"{site.page.as_uri()}?play=0", "window.kinema")
    observed, action = tab.evaluate(
        "() => { kinema.reset(); const { policy } = kinema; policy.commands.velocity.splice(0, 3, 0.5, 0, 0);"
        " const seen = policy.observe(); return [seen, [...policy.evaluate(seen)]]; }"
    )
    env = learn.make_env("walk", 1, "cpu", arrays="numpy")
    env.scene.reset(keyframe="home")
    env.commands["velocity"] = np.array([[0.5, 0.0, 0.0]], np.float32)
    env.action = np.zeros_like(env.action)
    env._step_cache.clear()
    expected = env.observe()["critic"]  # the same terms without noise
    np.testing.assert_allclose(observed, expected[0], atol=1e-5)
    np.testing.assert_allclose(action, policy(expected)[0], atol=1e-5)
    tab.evaluate("kinema.step(800)")  # 4 s
    x, y, z = tab.evaluate("kinema.position(kinema.view.followedLink())")
    assert x > 1.2
    assert abs(y) < 0.5
    assert z > 0.2
    assert not tab.evaluate("kinema.failed")
    assert tab.complaints == []
    tab.close()
