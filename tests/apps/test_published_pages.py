"""WebAssembly modules and published pages: the simulation of a page is that of the scene; what a page consists of."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.apps import learn
from kinema.apps.publish import load_scene_file
from kinema.runtime import summarise_wasm
from kit import command_line
from kit.assets import EXAMPLES

from .compiled_leg import LEG, make_scene, run, tool

N_CALLS, STEPS_PER_CALL = 40, 5
RUN_MODULE = """
import { load } from "./leg.js";
const leg = await load();
const simulation = leg.createSimulation();
const states = [];
for (let k = 0; k < 40; k++) {
  simulation.control.ctrl = [0.5 * (k % 7 - 3), -0.125 * (k % 5)];
  simulation.step(5);
  states.push([...simulation.state.qpos, ...simulation.state.vel, ...simulation.observe().pos]);
}
const q = [0.1, 0.2, -0.3];
leg.jacobian(2, q);
const ofNoLink = leg.jacobian(3, q).every(Number.isNaN);
console.log(JSON.stringify({
  states, contacts: simulation.state.max_n_contacts[0], time: simulation.time, links: leg.names.link,
  fk: [...leg.fk(q).pos], crba: [...leg.crba(q)], jacobian: [...leg.jacobian(2, q)], upper: leg.tables.upper[2],
  rnea: [...leg.rnea(q, [1, 2, 3], [0, 1, 0])], ik: [...leg.ik(2, [0, 0, 0.3], [1, 0, 0, 0], q).result], ofNoLink,
}));
"""
LINKAGE = """
<mujoco model="linkage">
  <worldbody>
    <body name="crank"><joint name="drive" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .1" size=".01"/>
      <body name="coupler" pos="0 0 .1"><joint name="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 .2 0 0" size=".01"/></body></body>
    <body name="rocker" pos=".2 0 0"><joint name="swing" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 .1" size=".01"/></body>
  </worldbody>
  <equality><connect body1="coupler" body2="rocker" anchor=".2 0 0"/></equality>
</mujoco>
"""
"""A four-bar linkage: of three joints, two follow the first."""


def settings_of(page: Path) -> dict[str, Any]:
    """Settings on a page."""
    found = re.search(r"window\.kinemaSettings = (\{.*?\});</script>", page.read_text())
    assert found is not None
    return json.loads(found.group(1).replace("<\\/", "</"))


def glb_nodes(content: bytes) -> list[str]:
    """Names of the nodes of a binary glTF file."""
    magic, _, size, length, _ = struct.unpack_from("<4sIII4s", content)
    assert (magic, size) == (b"glTF", len(content))
    return [node["name"] for node in json.loads(content[20 : 20 + length])["nodes"]]


@pytest.fixture(scope="module")
def leg_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("robot") / "leg.xml"
    file.write_text(LEG)
    return file


def test_a_module_simulates_and_computes_as_the_scene_does(leg_file: Path, tmp_path: Path) -> None:
    node = tool("node")
    scene = make_scene(leg_file)
    scene.reset(keyframe="bent")
    library = km.compile_library(scene, tmp_path, name="leg", target="wasm32")
    assert 0 < library.stack_bytes["step"] < 10_000
    summary = summarise_wasm(library.files["object"].read_bytes())
    assert not summary.undefined
    assert {"leg_step", "leg_fk"} <= summary.functions.keys()
    assert library.files["module"].stat().st_size < 200_000
    (tmp_path / "run.mjs").write_text(RUN_MODULE)
    found = json.loads(run(node, tmp_path / "run.mjs"))
    leg, solver, expected = scene.entities[0], scene.sim.rigid_solver, []
    for k in range(N_CALLS):
        leg.control([0.5 * (k % 7 - 3), -0.125 * (k % 5)])
        scene.step(STEPS_PER_CALL)
        positions = np.array(solver.links_state.pos.numpy())[:, 0].ravel()
        expected.append(np.concatenate([leg.get_qpos()[0], leg.get_qvel()[0], positions]))
    np.testing.assert_allclose(found["states"], expected, atol=1e-9)  # no fused multiply-add in WebAssembly
    assert (found["contacts"], found["links"]) == (1, ["hip", "thigh", "shin"])
    assert found["time"] == pytest.approx(scene.time)
    native = km.compile_library(leg_file, tmp_path / "native", functions=["fk", "crba", "jacobian", "rnea"]).load()
    q = [0.1, 0.2, -0.3]
    np.testing.assert_allclose(found["fk"], native.fk(q)[0].ravel(), atol=1e-13)
    np.testing.assert_allclose(found["crba"], native.crba(q).ravel(), atol=1e-13)
    np.testing.assert_allclose(found["jacobian"], native.jacobian(2, q).ravel(), atol=1e-13)
    np.testing.assert_allclose(found["rnea"], native.rnea(q, [1, 2, 3], [0, 1, 0]), atol=1e-12)
    assert found["upper"] == native.TABLES["upper"][2]
    assert found["ik"][2] >= 1
    assert found["ofNoLink"]


def test_a_page_has_all_that_it_needs_beside_it(leg_file: Path, tmp_path: Path) -> None:
    site = km.publish(leg_file, tmp_path / "site", title="A leg </script>")
    assert {path.name for path in (tmp_path / "site").iterdir()} == {path.name for path in site.files.values()}
    page = site.page.read_text()
    assert "<title>A leg &lt;/script&gt;</title>" in page
    assert not re.search(r"(?:src|href)=.?https?:", page)
    for name in re.findall(r'<script src="([^"]+)"', page):
        assert (tmp_path / "site" / name).is_file()
    settings = settings_of(site.page)
    assert settings["title"] == "A leg </script>"
    assert [(c["label"], c["array"], c["index"]) for c in settings["controls"]] == [
        ("drive", "ctrl", 0),
        ("hold", "ctrl", 1),
    ]
    assert settings["keyframes"]["bent"]["qpos"] == [0, 0.3, -0.6]
    assert sorted(glb_nodes(site.files["visuals"].read_bytes())) == ["1", "2", "world"]  # the hip has no shape
    embedded = json.loads(site.files["embedded"].read_text().partition("=")[2].rstrip(";\n"))
    for name, kind in (("robot.wasm", "module"), ("robot.glb", "visuals")):
        assert base64.b64decode(embedded[name]) == site.files[kind].read_bytes()
    assert "three.js authors" in site.files["license"].read_text()
    n_bytes = sum(path.stat().st_size for path in site.files.values())
    assert n_bytes < 5e6
    members = {member["name"] for member in settings["library"]["structs"]["state"]}
    assert {"qpos", "vel", "n_contacts", "cfrc_applied_vel", "cfrc_applied_ang"} <= members


def test_sliders_are_for_joints_that_do_not_follow_others(tmp_path: Path) -> None:
    file = tmp_path / "linkage.xml"
    file.write_text(LINKAGE)
    settings = settings_of(km.publish(file, tmp_path / "site").page)
    assert [control["label"] for control in settings["controls"]] == ["drive"]
    assert settings["links"]["followers"] == [[[0, 0]], [[0, 0]], []]
    assert settings["links"]["moving"] == [True] * 3


def test_a_scene_file_makes_the_scene(leg_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "ball.py"
    file.write_text(
        "import kinema as km\n\n"
        "def make_scene(robot):\n"
        "    scene = km.Scene(precision='double', quiet=True)\n"
        "    scene.add(robot)\n"
        "    scene.add(km.Plane(), pos=(0.0, 0.0, -0.1))\n"
        "    scene.add(km.Sphere(0.1), pos=(0.0, 1.0, 0.5), name='ball')\n"
        "    return scene\n"
    )
    status, printed, _ = command_line.run("publish", leg_file, file, "--out", tmp_path / "site", "--json")
    summary = json.loads(printed)
    assert status == 0
    assert summary["bytes"]["module"] > 10_000
    settings = settings_of(Path(summary["page"]))
    assert settings["links"]["names"] == ["hip", "thigh", "shin", "plane", "sphere"]
    assert [plane["link"] for plane in settings["planes"]] == [3]
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(km.KinemaError, match="no function make_scene"):
        load_scene_file(tmp_path / "empty.py", None)
    (tmp_path / "wrong.py").write_text("def make_scene(robot):\n    return robot\n")
    with pytest.raises(km.KinemaError, match="returned str"):
        load_scene_file(tmp_path / "wrong.py", "leg")
    (tmp_path / "fails.py").write_text("def make_scene(robot):\n    return 1 / 0\n")
    status, _, complaint = command_line.run("publish", leg_file, tmp_path / "fails.py", "--out", tmp_path / "no site")
    assert (status, not (tmp_path / "no site").exists()) == (2, True)
    assert "fails.py:2: make_scene raised ZeroDivisionError: division by zero" in " ".join(complaint.split())
    (tmp_path / "imports.py").write_text("import no_such_module\n")
    with pytest.raises(km.KinemaError, match=r"imports.py: cannot be imported: ModuleNotFoundError"):
        load_scene_file(tmp_path / "imports.py", None)
    status, _, complaint = command_line.run("publish", leg_file, tmp_path / "none.py", "--out", tmp_path / "site")
    assert (status, "no Python file" in complaint) == (2, True)


def test_what_cannot_be_published_is_one_sentence(leg_file: Path, tmp_path: Path) -> None:
    for arguments, message in (
        ({"source": None}, "either a robot or scene, or a task"),
        ({"source": leg_file, "task": "walk"}, "a policy needs the task"),
        ({"source": leg_file, "policy": "walk.npz"}, "a policy needs the task"),
        ({"source": None, "task": "fly", "policy": "walk.npz"}, "'fly' is none of cartpole"),
        ({"source": None, "task": "cartpole", "policy": EXAMPLES / "quadruped/walk.npz"}, "12 actions, the task 1"),
    ):
        with pytest.raises(km.KinemaError, match=message):
            km.publish(arguments.pop("source"), tmp_path, **arguments)
    scene = km.Scene(quiet=True)
    scene.add(km.Box((1, 1, 1)), fixed=True)
    with pytest.raises(km.KinemaError, match="nothing in the scene can move"):
        km.publish(scene, tmp_path)
    scene = km.Scene(quiet=True)
    scene.add(leg_file)
    scene.build(n_envs=2)
    with pytest.raises(km.KinemaError, match="one environment"):
        km.publish(scene, tmp_path)


def test_the_terms_of_a_policy_are_on_the_page(tmp_path: Path) -> None:
    policy = learn.Policy([np.ones((4, 5)), np.ones((1, 4))], [np.zeros(4), np.zeros(1)])
    settings = settings_of(km.publish(None, tmp_path, policy=policy, task="cartpole").page)["policy"]
    assert (settings["decimation"], settings["commands"]) == (4, {})
    assert [term["kind"] for term in settings["observations"]] == [
        "joint_pos",
        "joint_sin_cos",
        "joint_vel",
        "joint_vel",
    ]
    assert settings["actions"] == [{"kind": "actuators", "count": 1, "scale": 1.0, "offset": [0.0], "actuators": [0]}]
    weights = np.frombuffer(base64.b64decode(settings["layers"][0]["weights"]), "<f4")
    np.testing.assert_array_equal(weights, np.ones(20))
