"""A process that finds everything in the cache: same model, same diagnostics, and nothing imported that traces."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import CACHE_ENV_VARIABLE, cache, content_digest
from kinema.model import Model
from kit.choosing import representatives
from kit.hollow_meshes import cup, tray

UNNEEDED = (
    *("scipy", "warp", "torch", "rich", "trimesh", "PIL", "http.client"),
    *("kinema.write", "kinema.render", "kinema.kinematics", "kinema.apps", "kinema.check"),
    *("kinema.ir.exports", "kinema.codegen.emit", "kinema.ir.symbolic", "kinema.runtime.compilation"),
    *(
        "kinema.dynamics.exports",
        "kinema.dynamics.step",
        "kinema.dynamics.lowering.step_program",
        "kinema.dynamics.lowering.invweight",
    ),
    *(
        "kinema.dynamics.collision.collision_table",
        "kinema.dynamics.queries.field_groups",
        "kinema.kinematics",
        "kinema.dynamics.solver",
    ),
)
"""What a cached start has no use for."""

ROBOT = """<robot name="bot">
  <link name="base"/>
  <link name="arm">
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
    <collision><geometry><mesh filename="arm.obj" scale="0.5 0.5 0.5"/></geometry></collision>
  </link>
  <joint name="turn" type="revolute">
    <parent link="base"/><child link="arm"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="1" velocity="1"/>
  </joint>
</robot>
"""

START = """
import json, sys
import kinema as km
scene = km.Scene(quiet=True)
scene.add(sys.argv[1])
scene.add(km.Plane())
scene.build(1)
scene.step()
print(json.dumps([sorted(sys.modules), scene.built.model_key, [str(d) for d in scene.diagnostics]]))
"""


def robot_in(folder: Path) -> Path:
    """A robot with a mesh in a file, which is not convex."""
    vertices, faces = cup()
    lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in np.asarray(vertices).tolist()]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in np.asarray(faces).tolist()]
    (folder / "arm.obj").write_text("\n".join(lines), encoding="ascii")
    file = folder / "bot.urdf"
    file.write_text(ROBOT, encoding="ascii")
    return file


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, of which nothing is in memory."""
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "cache"))
    cache._memory_cache.clear()
    return tmp_path / "cache"


def heap_in(folder: Path) -> Path:
    """An MJCF file of enough free bodies for rules of collision."""
    body = '<body pos="{} 0 0.1"><freejoint/><geom type="box" size=".1 .1 .1"/></body>'
    file = folder / "heap.xml"
    bodies = "".join(body.format(0.3 * i) for i in range(20))
    file.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>", encoding="ascii")
    return file


@pytest.mark.parametrize("make_file", [robot_in, heap_in])
def test_a_cached_start_imports_nothing_that_traces(
    own_cache: Path, tmp_path: Path, make_file: Callable[[Path], Path]
) -> None:
    """Only the first process does; the second has the same model and says the same."""
    file = make_file(tmp_path)
    runs = [json.loads(subprocess.check_output([sys.executable, "-c", START, str(file)], text=True)) for _ in range(2)]
    assert "kinema.dynamics.step" in runs[0][0]
    loaded = [name for name in runs[1][0] if any(name == x or name.startswith(f"{x}.") for x in UNNEEDED)]
    assert loaded == []
    assert runs[0][1:] == runs[1][1:]


def compiled(nonconvex: str | None, robot: Path) -> tuple[Model, list[str]]:
    """The model of some meshes, and what is said of them."""
    scene = km.Scene(quiet=True, nonconvex=nonconvex)
    scene.add(robot)
    vertices, faces = tray((0.06, 0.06, 0.05), (0.021, 0.021), 0.02)
    scene.add(km.Mesh(vertices=vertices, faces=faces, approximation="boundingCube"), pos=(1.0, 0.0, 0.0), name="box")
    flat = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    scene.add(km.Mesh(vertices=flat, faces=np.array([[0, 1, 2]])), pos=(0.0, 3.0, 0.0), fixed=True, name="flat")
    scene.build(1)
    return scene.built.model, [str(d) for d in scene.diagnostics]


def entries(own_cache: Path) -> list[Path]:
    return sorted((own_cache / "geometry").glob("*.entry"))


@pytest.mark.parametrize("nonconvex", representatives([None, "sdf"], 1))
def test_cached_geometry_is_the_same(own_cache: Path, tmp_path: Path, nonconvex: str | None) -> None:
    """From memory and from disk: every array of the model, and every diagnostic."""
    robot = robot_in(tmp_path)
    model, said = compiled(nonconvex, robot)
    assert any("is not convex" in line for line in said) is (nonconvex is None)
    assert any("planar" in line for line in said)
    for forget in (False, True):
        if forget:
            cache._memory_cache.clear()
        again, said_again = compiled(nonconvex, robot)
        assert said_again == said
        assert content_digest(again) == content_digest(model)
        np.testing.assert_array_equal(again.geoms.data, model.geoms.data)


@pytest.mark.parametrize("damage", [lambda x: x[: len(x) // 2], lambda x: x[:-9] + b"\1" + x[-8:], lambda _: b""])
def test_damaged_geometry_is_computed_again(own_cache: Path, tmp_path: Path, damage: Any) -> None:
    """Truncated, altered or empty entries are replaced by good ones."""
    robot = robot_in(tmp_path)
    model, said = compiled(None, robot)
    good = {file: file.read_bytes() for file in entries(own_cache)}
    assert good
    for file, content in good.items():
        file.write_bytes(damage(content))
    cache._memory_cache.clear()
    again, said_again = compiled(None, robot)
    assert content_digest(again) == content_digest(model)
    assert said_again == said
    assert {file: file.read_bytes() for file in entries(own_cache)} == good


def test_geometry_follows_the_content_of_files(own_cache: Path, tmp_path: Path) -> None:
    """A file of the same name and size with other triangles is another mesh."""
    robot = robot_in(tmp_path)
    model, _ = compiled(None, robot)
    lines = (tmp_path / "arm.obj").read_text(encoding="ascii").splitlines()
    digits = str.maketrans("12345678", "23456781")
    other = [line.translate(digits) if line.startswith("v ") else line for line in lines]
    (tmp_path / "arm.obj").write_text("\n".join(other), encoding="ascii")
    assert content_digest(compiled(None, robot)[0].geoms) != content_digest(model.geoms)


def test_an_unusable_mesh_is_said_each_time(own_cache: Path, tmp_path: Path) -> None:
    """What fails is not cached, and is reported in the same words."""
    robot = robot_in(tmp_path)
    (tmp_path / "arm.obj").write_text("v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n", encoding="ascii")
    said = []
    for _ in range(2):
        scene = km.Scene(quiet=True)
        scene.add(robot)
        scene.add(km.Plane())
        scene.build(1)
        said.append([str(d) for d in scene.diagnostics if d.code == "sim.no-contact"])
    assert said[0] == said[1]
    assert "collinear" in said[0][0]


def test_the_form_of_a_step_is_cached(own_cache: Path) -> None:
    """With the numbers that a body which flies alone reads for itself."""

    def engine() -> Any:
        scene = km.Scene(quiet=True)
        scene.add(km.Sphere(0.1), pos=(0.0, 0.0, 1.0))
        scene.add(km.Plane())
        scene.build(1)
        return scene.built.engine

    first, second = engine(), engine()
    assert first.settings == second.settings
    assert first.uses_loops == second.uses_loops
    assert first.model.derived.per_env_parameters is not None
    assert second.model.derived.per_env_parameters is not None
    assert first.model.derived.per_env_parameters.entries == second.model.derived.per_env_parameters.entries
    np.testing.assert_array_equal(
        first.model.derived.per_env_parameters.values, second.model.derived.per_env_parameters.values
    )
    assert first.digest == second.digest
