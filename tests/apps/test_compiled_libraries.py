"""Robots and scenes compiled to libraries: the same bits as the scene, from C, C++ and Python, without a libc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.runtime import library_target, static_library, summarise_elf
from kit import command_line
from kit.assets import EXAMPLES, ROOT, all_assets

from .compiled_leg import LEG, make_scene, run, tool

N_CALLS, STEPS_PER_CALL = 200, 5
PROGRAM = """
#include <stdio.h>
#include "leg.h"

static leg_workspace workspace;

int main(void) {
    leg_state state = leg_initial_state;
    leg_control control = leg_initial_control;
    leg_observation seen;
    int k, n_calls = 200;
    for (k = 0; k < n_calls; k++) {
        control.ctrl[0] = 0.5 * (k % 7 - 3);
        control.ctrl[1] = -0.125 * (k % 5);
        leg_step(&state, &control, 5, &workspace);
        leg_observe(&state, &control, &seen, &workspace);
        fwrite(&state, sizeof state, 1, stdout);
        fwrite(&seen, sizeof seen, 1, stdout);
    }
    return 0;
}
"""
CPP_PROGRAM = """
#include <cstdio>
#include "leg.hpp"

int main() {
    leg::simulation simulation;
    leg::simulation other = simulation;
    other.step(3);
    simulation.step();
    simulation.step(2);
    if (simulation.failed() || other.state.qpos[0] != simulation.state.qpos[0]) return 1;
    std::array<leg::scalar, leg::n_q> q{0.1, 0.2, -0.3};
    std::array<leg::scalar, leg::n_v> v{1.0, 2.0, 3.0}, a{}, tau{}, back{};
    leg::rnea(q, v, a, tau);
    leg::aba(q, v, tau, back);
    std::array<leg::scalar, leg::n_v * leg::n_v> mass{};
    leg::crba(q, mass);
    double poses[leg::n_links * 7], *quaternions = poses + 3 * leg::n_links;
    double positions[leg::n_links * 3];
    leg::fk(q, positions, leg::span<double, leg::n_links * 4>(quaternions));
    leg::fk(q, leg::span<double, leg::n_links * 3>(positions), leg::span<double, leg::n_links * 4>(quaternions));
    if (positions[2] != 0.62 + q[0]) return 4;
    for (double x : back) if (x > 1e-9 || x < -1e-9) return 2;
    return mass[0] > 2.6 && simulation.observe().sensordata[3] == simulation.state.qpos[2] ? 0 : 3;
}
"""
HEAP_PROGRAM = """
#include <stdlib.h>
#include "leg.h"

int main(void) {
    leg_state *state = malloc(sizeof *state);
    leg_control *control = malloc(sizeof *control);
    leg_workspace *workspace = malloc(sizeof *workspace);
    leg_observation *seen = malloc(sizeof *seen);
    leg_scalar *mass = malloc(LEG_N_V * LEG_N_V * sizeof *mass);
    leg_scalar *jacobian = malloc(6 * LEG_N_V * sizeof *jacobian);
    int failed, i;
    *state = leg_initial_state;
    *control = leg_initial_control;
    leg_step(state, control, 300, workspace);
    leg_observe(state, control, seen, workspace);
    for (i = 0; i < LEG_N_V * LEG_N_V; i++) mass[i] = 1e9;
    for (i = 0; i < 6 * LEG_N_V; i++) jacobian[i] = 1e9;
    leg_crba(state->qpos, (leg_scalar (*)[LEG_N_V])mass);
    leg_jacobian(LEG_LINK_SHIN, state->qpos, (leg_scalar (*)[LEG_N_V])jacobian);
    failed = !(mass[0] > 0 && jacobian[0] < 10 && seen->pos[0][2] < 1 && state->max_n_contacts[0] == 1);
    free(state), free(control), free(workspace), free(seen), free(mass), free(jacobian);
    return failed;
}
"""
CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.16)
project(run CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(leg CONFIG REQUIRED)
add_executable(with_static run.cpp)
target_link_libraries(with_static leg::leg)
add_executable(with_shared run.cpp)
target_link_libraries(with_shared leg::shared)
"""
STRICT = ["-Wall", "-Wextra", "-pedantic", "-Werror"]


@pytest.fixture(scope="module")
def leg_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("robot") / "leg.xml"
    file.write_text(LEG)
    return file


@pytest.fixture(scope="module")
def library(leg_file: Path, tmp_path_factory: pytest.TempPathFactory) -> km.CompiledLibrary:
    """The leg, compiled for this machine from a scene in the state of its keyframe."""
    scene = make_scene(leg_file)
    scene.reset(keyframe="bent")
    return km.compile_library(scene, tmp_path_factory.mktemp("leg"), name="leg")


@pytest.fixture(scope="module")
def trajectory(leg_file: Path) -> list[tuple[np.ndarray, ...]]:
    """State arrays, sensor values and link positions of the scene after each call of the C program."""
    scene = make_scene(leg_file)
    scene.reset(keyframe="bent")
    engine, leg = scene.built.engine, scene.entities[0]
    steps = []
    for k in range(N_CALLS):
        leg.control([0.5 * (k % 7 - 3), -0.125 * (k % 5)])
        scene.step(STEPS_PER_CALL)
        state = np.concatenate([engine.read_array(name)[:, 0] for name in engine.state.layout.rows])
        sensors, solver = scene.built.engine.fields.sensors.sensordata, scene.sim.rigid_solver
        steps.append((state, np.array(sensors.numpy()).ravel(), np.array(solver.links_state.pos.numpy())[:, 0]))
    return steps


# ------------------------------------------------------------------------------------------------------------------- C


def test_a_c_program_takes_1000_steps_in_contact_with_the_same_bits(
    library: km.CompiledLibrary, trajectory: list[tuple[np.ndarray, ...]], tmp_path: Path
) -> None:
    source, folder = tmp_path / "run.c", library.files["header"].parent
    loader = library.load()
    source.write_text(PROGRAM)
    command = [tool("gcc"), "-std=c99", *STRICT, f"-I{folder}", source]
    run(*command, library.files["static"], "-o", tmp_path / "static")
    assert library.shared is not None
    run(*command, library.shared, f"-Wl,-rpath,{folder}", "-o", tmp_path / "shared")
    outputs = [run(tmp_path / kind) for kind in ("static", "shared")]
    assert outputs[0] == outputs[1]
    found = np.frombuffer(outputs[0]).reshape(N_CALLS, -1)
    state, seen = loader.Struct("state"), loader.Struct("observation")
    n_state = len(state.data)
    contacts = 0.0
    for row, (values, sensors, positions) in zip(found, trajectory, strict=True):
        assert row[:n_state].tobytes() == values.tobytes()
        state.data[:], seen.data[:] = row[:n_state], row[n_state:]
        contacts += state.n_contacts[0]
        assert seen.sensordata.tobytes() == sensors.tobytes()
        assert seen.pos.tobytes() == positions.tobytes()
    assert contacts > N_CALLS / 4
    assert state.n_iterations[0] >= 1


def test_the_cpp_wrapper_computes_and_simulates(library: km.CompiledLibrary, tmp_path: Path) -> None:
    source, folder = tmp_path / "run.cpp", library.files["header"].parent
    source.write_text(CPP_PROGRAM)
    command = [tool("g++"), "-std=c++17", *STRICT, f"-I{folder}", source]
    run(*command, library.files["static"], "-o", tmp_path / "run")
    run(tmp_path / "run")


def test_no_symbol_is_undefined_and_all_documented_ones_are_defined(library: km.CompiledLibrary) -> None:
    summary = summarise_elf(library.files["object"].read_bytes())
    assert set(summary.undefined) <= {"_GLOBAL_OFFSET_TABLE_"}
    header = library.files["header"].read_text()
    assert all(f" {name}" in header for name in summary.defined)
    listed = run(tool("nm"), "-D", "--undefined-only", library.shared).decode()
    assert not listed.strip()
    listed = run(tool("nm"), "--print-armap", library.files["static"]).decode()
    assert all(f"{name} in leg.o" in listed for name in summary.defined)


@pytest.mark.exhaustive
def test_memory_is_clean_under_valgrind_and_sanitizers(leg_file: Path, tmp_path: Path) -> None:
    """The structs are on the heap, each exactly as long as its size says, and not initialised."""
    library = km.compile_library(leg_file, tmp_path / "leg", name="leg", target="x86-64-v3")
    source = tmp_path / "run.c"
    source.write_text(HEAP_PROGRAM)
    command = [tool("gcc"), "-g", "-std=c99", *STRICT, f"-I{tmp_path / 'leg'}", source, library.files["static"]]
    run(*command, "-fsanitize=address,undefined", "-o", tmp_path / "sanitized")
    run(tmp_path / "sanitized")
    run(*command, "-o", tmp_path / "plain")
    run(tool("valgrind"), "--error-exitcode=9", "--leak-check=full", tmp_path / "plain")


@pytest.mark.exhaustive
def test_cmake_finds_the_package(library: km.CompiledLibrary, tmp_path: Path) -> None:
    (tmp_path / "run.cpp").write_text(CPP_PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE_PROJECT)
    folder = library.files["cmake"].parent
    run(tool("cmake"), "-S", tmp_path, "-B", tmp_path / "build", f"-Dleg_DIR={folder}")
    run("cmake", "--build", tmp_path / "build")
    run(tmp_path / "build" / "with_static")
    run(tmp_path / "build" / "with_shared")


# -------------------------------------------------------------------------------------------------------------- Python


def test_state_files_go_from_the_scene_to_the_library_and_back(
    library: km.CompiledLibrary, leg_file: Path, tmp_path: Path
) -> None:
    scene, simulation = make_scene(leg_file), library.load().Simulation()
    simulation.step(-3)
    assert (simulation.n_steps, simulation.time) == (0, 0.0)
    scene.step(150)
    scene.get_state().save(tmp_path / "there.npz")
    simulation.load(tmp_path / "there.npz")
    simulation.step(50)
    simulation.save(tmp_path / "back.npz")
    scene.step(50)
    expected = scene.get_state()
    scene.reset()
    scene.set_state(km.SceneState.load(tmp_path / "back.npz"))
    found = scene.get_state()
    assert found.arrays.keys() == expected.arrays.keys()
    for name, values in expected.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], values, err_msg=name)
    assert (found.step_count, found.sim_time) == (expected.step_count, pytest.approx(expected.sim_time))
    scene.set_gravity((0, 0, -1))
    scene.get_state().save(tmp_path / "moon.npz")
    with pytest.raises(ValueError, match="gravity differs"):
        simulation.load(tmp_path / "moon.npz")


def test_functions_agree_with_mujoco(library: km.CompiledLibrary) -> None:
    module, rng = library.load(), np.random.default_rng(3)
    model = mujoco.MjModel.from_xml_string(LEG)
    data = mujoco.MjData(model)
    for _ in range(5):
        q, v, a = rng.uniform(-1, 1, (3, 3))
        q[2] = -abs(q[2])  # within the limits
        data.qpos[:], data.qvel[:], data.qacc[:] = q, v, a
        mujoco.mj_forward(model, data)
        mass = np.zeros((3, 3))
        mujoco.mj_fullM(model, data, mass)
        np.testing.assert_allclose(module.crba(q), mass, atol=1e-12)
        tau = mass @ a + data.qfrc_bias
        np.testing.assert_allclose(module.rnea(q, v, a), tau, atol=1e-11)
        np.testing.assert_allclose(module.aba(q, v, tau), a, atol=1e-10)
        positions, quaternions = module.fk(q)
        np.testing.assert_allclose(positions, data.xpos[1:], atol=1e-12)
        np.testing.assert_allclose(abs(np.sum(quaternions * data.xquat[1:], axis=1)), 1.0, atol=1e-12)
        for link in range(3):
            jacobian = np.zeros((6, 3))
            mujoco.mj_jacBody(model, data, jacobian[:3], jacobian[3:], link + 1)
            np.testing.assert_allclose(module.jacobian(link, q), jacobian, atol=1e-12)
        target = data.xpos[3].copy(), data.xquat[3].copy()
        solution, result = module.ik(2, *target, np.zeros(3))
        assert (result[:2] < [module.CONSTANTS["IK_POS_TOLERANCE"], module.CONSTANTS["IK_ROT_TOLERANCE"]]).all()
        assert module.TABLES["lower"][2] <= solution[2] <= module.TABLES["upper"][2]
        np.testing.assert_allclose(module.fk(solution)[0][2], target[0], atol=1e-4)
    assert module.NAMES["link"] == ["hip", "thigh", "shin"]
    with pytest.raises(ValueError, match="q has the shape"):
        module.fk(np.zeros(2))
    for link in (-1, 3):
        assert np.isnan(module.jacobian(link, np.zeros(3))).all()
        assert np.isnan(module.ik(link, np.zeros(3), [1, 0, 0, 0], np.zeros(3))[1]).all()


def test_outputs_are_written_completely(tmp_path: Path) -> None:
    """Of a tree with branches, mass matrix and Jacobians have entries that are always zero."""
    functions = ["fk", "jacobian", "rnea", "crba", "aba"]
    library = km.compile_library(EXAMPLES / "gripper/gripper.sdf", tmp_path, functions=functions, fixed=True)
    module = library.load()
    q = np.asarray(module.TABLES["initial_q"])
    for name, arguments in (("fk", [q]), ("rnea", [q, q, q]), ("crba", [q]), ("aba", [q, q, q])):
        outputs = getattr(module, name)(*arguments)  # which are NaN before
        assert all(np.isfinite(output).all() for output in (outputs if isinstance(outputs, tuple) else [outputs]))
    assert np.count_nonzero(module.crba(q)) < len(q) ** 2
    for link in range(module.CONSTANTS["N_LINKS"]):
        jacobian = module.jacobian(link, q)
        assert np.isfinite(jacobian).all()
        assert not jacobian.any(axis=0).all()


# -------------------------------------------------------------------------------------------------------------- targets


def test_code_for_other_processors_does_not_depend_on_this_one(leg_file: Path, tmp_path: Path) -> None:
    for target in ("x86-64-v3", "aarch64", "thumbv7em", "riscv64"):
        chosen = library_target(target)
        library = km.compile_library(
            leg_file, tmp_path / target, name="leg", functions=["rnea"], precision="single", target=target
        )
        summary = summarise_elf(library.files["object"].read_bytes())
        assert "leg_rnea" in summary.defined
        assert set(summary.undefined) <= {"_GLOBAL_OFFSET_TABLE_"}
        assert library.code_bytes < 20_000
        assert 0 < library.stack_bytes["rnea"] < 1000
        assert chosen.cpu in ("x86-64-v3", "generic", "cortex-m4", "generic-rv64")


HOSTS = {
    "newest": {"PYTHONHASHSEED": "1"},
    "oldest": {
        "PYTHONHASHSEED": "2",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "{dispatched}",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-FMA_Usable,-FMA,-FMA4",
    },
}
"""Settings with which NumPy, BLAS and the C library compute as on another processor."""
COMPILE_ON_HOST = """
import sys
import kinema.runtime.cpu_features as cpu_features
if sys.argv[1] == "oldest":
    cpu_features.cpuinfo.cache_clear()
    cpu_features.cpuinfo = lambda: "flags : sse2"
import kinema as km
scene = km.Scene(precision="double", quiet=True)
scene.add(sys.argv[2])
scene.add(km.Plane())
for target in sys.argv[4:]:
    km.compile_library(scene, f"{sys.argv[3]}/{target}", name="robot", functions=["fk", "rnea", "step"], target=target)
"""


SHEARED = """#usda 1.0
(
    upAxis = "Y"
    metersPerUnit = 0.01
)
def Xform "body" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])
{
    float3 xformOp:rotateXYZ = (10, 20, 70)
    double3 xformOp:scale = (1, 0.7, 1.3)
    uniform token[] xformOpOrder = ["xformOp:rotateXYZ", "xformOp:scale"]
    def Cube "cube" (prepend apiSchemas = ["PhysicsCollisionAPI"])
    {
        double size = 30
        float xformOp:rotateZ = 33
        double3 xformOp:translate = (3, 7, 1)
        uniform token[] xformOpOrder = ["xformOp:translate", "xformOp:rotateZ"]
    }
    def Sphere "sphere" (prepend apiSchemas = ["PhysicsCollisionAPI"])
    {
        double radius = 11
        float xformOp:rotateX = 41
        uniform token[] xformOpOrder = ["xformOp:rotateX"]
    }
}
"""
"""A body whose shapes are sheared: its transforms need singular values, its inertia sums over a mesh."""
MODEL_DIGESTS = ROOT / "tools" / "model_digests.py"


def run_on_hosts(program: Sequence[Any], folder: Path, *arguments: Any) -> list[list[str]]:
    """Lines that a Python program (a file, or `-c` and its text) prints as on the newest and the oldest processor."""
    umath = np.__config__.CONFIG["SIMD Extensions"]["found"]  # type: ignore[index]  # what NumPy dispatches to here
    printed = []
    for host, settings in HOSTS.items():
        settings = {name: value.format(dispatched=" ".join(umath)) for name, value in settings.items()}
        environment = {**os.environ, **settings, "KINEMA_CACHE": str(folder / f"cache {host}")}
        given = (str(x).format(host=host) for x in arguments)
        command = [sys.executable, "-W", "ignore", *map(str, program), *given]
        printed.append(subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout)
    return [text.splitlines() for text in printed]


def compile_on_hosts(robot: Path, folder: Path, *targets: str) -> None:
    """Compile a robot as on the newest and the oldest processor, and compare the object files."""
    run_on_hosts(["-c", COMPILE_ON_HOST], folder, "{host}", robot, folder / "{host}", *targets)
    for target in targets:
        first, second = ((folder / host / target / "robot.o").read_bytes() for host in HOSTS)
        assert first == second


def test_object_files_do_not_depend_on_the_processor_that_compiles(leg_file: Path, tmp_path: Path) -> None:
    compile_on_hosts(leg_file, tmp_path, "aarch64")


def test_constants_do_not_depend_on_the_processor(tmp_path: Path) -> None:
    stage = tmp_path / "sheared.usda"
    stage.write_text(SHEARED)
    newest, oldest = run_on_hosts([MODEL_DIGESTS], tmp_path, stage)
    assert newest[0].startswith("sheared.usda constants ")
    assert newest == oldest


@pytest.mark.exhaustive
def test_constants_of_shared_robots_do_not_depend_on_the_processor(tmp_path: Path) -> None:
    files = all_assets("urdf/*/*.urdf", "sdf/*/*.sdf", "mjcf/*/*.xml", "usd/*/*.usd*")
    newest, oldest = run_on_hosts([MODEL_DIGESTS], tmp_path, *files)
    assert newest == oldest


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "robot",
    ["acrobot/acrobot.xml", "arm/arm.urdf", "gripper/gripper.sdf", "hopper/hopper.xml", "quadruped/quadruped.xml"],
)
def test_object_files_of_bundled_robots_do_not_depend_on_the_processor(robot: str, tmp_path: Path) -> None:
    compile_on_hosts(EXAMPLES / robot, tmp_path, "x86-64-v3", "aarch64", "wasm32")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"functions": ["fk", "fly"]}, "not fly"),
        ({"functions": []}, "not none"),
        ({"target": "z80"}, "'z80' is none of native, x86-64-v3"),
        ({"target": "thumbv7em", "precision": "double"}, "no instructions for double precision"),
        ({"target": "thumbv7em", "functions": ["step"]}, "thumbv7em has fk, jacobian, rnea, crba, aba, not step"),
        ({"name": "a leg"}, "no identifier of C"),
        ({"name": "double"}, "is a reserved word"),
    ],
)
def test_what_cannot_be_compiled_is_one_sentence(
    leg_file: Path, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(km.KinemaError, match=message):
        km.compile_library(leg_file, tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_kinematics_needs_no_masses(tmp_path: Path) -> None:
    """A robot whose joints move no mass has forward and inverse kinematics and Jacobians, but no dynamics."""
    file = tmp_path / "bare.urdf"
    limits = '<limit lower="-2" upper="2" effort="1" velocity="1"/>'
    file.write_text(
        f"""<robot name="bare"><link name="base"/><link name="upper"/><link name="lower"/>
        <joint name="a" type="revolute"><parent link="base"/><child link="upper"/><axis xyz="0 1 0"/>{limits}</joint>
        <joint name="b" type="revolute"><parent link="upper"/><child link="lower"/><origin xyz="0.5 0 0"/>
        <axis xyz="0 0 1"/>{limits}</joint></robot>"""
    )
    with pytest.raises(km.KinemaError, match="no mass or inertia to move"):
        km.compile_library(file, tmp_path / "all", functions=["fk", "crba"], fixed=True)
    library = km.compile_library(file, tmp_path / "out", functions=["fk", "jacobian", "ik"], fixed=True)
    assert "sim.massless" in {item.code for item in library.diagnostics}
    bare, kinematics, q = library.load(), km.Kinematics(file), np.array([0.3, -0.7])
    position, quaternion = bare.fk(q)
    expected = kinematics.forward_kinematics(q[None])
    np.testing.assert_allclose(position, expected[0][0], atol=1e-15)
    np.testing.assert_allclose(quaternion, expected[1][0], atol=1e-15)
    np.testing.assert_allclose(bare.jacobian(2, q), kinematics.jacobian(q[None], "lower")[0], atol=1e-15)
    found = bare.ik(2, position[2], quaternion[2], np.zeros(2))
    np.testing.assert_allclose(found[0], q, atol=1e-3)  # the tolerance of the position is 1e-4 m


def test_scenes_that_are_not_one_environment_on_a_cpu_are_refused(leg_file: Path, tmp_path: Path) -> None:
    scene = km.Scene(quiet=True)
    scene.add(leg_file)
    scene.build(n_envs=2)
    with pytest.raises(km.KinemaError, match="2 environments"):
        km.compile_library(scene, tmp_path)
    with pytest.raises(km.KinemaError, match="precision is an option for robots"):
        km.compile_library(make_scene(leg_file), tmp_path, precision="single")
    scene = km.Scene(quiet=True)
    scene.add(km.Box((1, 1, 1)), fixed=True)
    scene.build()
    with pytest.raises(km.KinemaError, match="nothing in the scene can move"):
        km.compile_library(scene, tmp_path)


def test_without_a_compiler_there_is_no_shared_library(
    leg_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    library = km.compile_library(leg_file, tmp_path / "out", functions=["fk"])
    assert library.shared is None
    assert any("there is no C compiler (cc)" in str(item) for item in library.diagnostics)
    assert "no C compiler" in library.files["report"].read_text()


def test_the_command_writes_a_library_for_each_robot(leg_file: Path, tmp_path: Path) -> None:
    status, printed, _ = command_line.run(
        "compile", leg_file, "--out", tmp_path / "one", "--functions", "fk,crba", "--json"
    )
    summary = json.loads(printed)
    assert status == 0
    assert (summary["name"], summary["target"], sorted(summary["stack_bytes"])) == ("leg", "native", ["crba", "fk"])
    assert all(Path(file).is_file() for file in summary["files"].values())
    other = tmp_path / "other.xml"
    other.write_text(LEG.replace('"leg"', '"arm"'))
    options = ("--functions", "fk", "--target", "aarch64")
    status, printed, _ = command_line.run("compile", leg_file, other, "--out", tmp_path / "two", *options)
    assert (status, "library arm for aarch64" in printed) == (0, True)
    assert {file.name for file in (tmp_path / "two").iterdir()} == {"leg", "arm"}
    status, _, complaint = command_line.run("compile", leg_file, "--out", tmp_path / "three", "--functions", "fly")
    assert (status, complaint.startswith("error: functions: target native has fk")) == (2, True)


FLAWED = """
<robot name="flawed">
  <link name="base"/>
  <link name="arm">
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="turn" type="revolute">
    <parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-1.5" upper="0.25" effort="9" velocity="1"/>
  </joint>
  <joint name="lost" type="fixed"><parent link="arm"/><child link="nowhere"/></joint>
</robot>
"""
"""A joint to a link that does not exist."""


def test_the_command_compiles_what_can_be_simulated_and_lists_errors(tmp_path: Path) -> None:
    file = tmp_path / "flawed.urdf"
    file.write_text(FLAWED)
    options = ("--functions", "fk", "--target", "aarch64", "--base", "fixed")
    status, printed, _ = command_line.run("compile", file, "--out", tmp_path / "out", *options)
    assert (status, "dangling-joint" in printed, "stack [bytes]" in printed) == (1, True, True)
    header = (tmp_path / "out" / "flawed.h").read_text()
    assert "q 0, v 0: turn (revolute), moves arm, limits -1.5 to 0.25" in header
    with pytest.raises(km.KinemaError, match="dangling-joint"):
        km.compile_library(file, tmp_path / "none", functions=["fk"], fixed=True)
    assert not (tmp_path / "none").exists()


def test_archives_hold_long_names(tmp_path: Path) -> None:
    file = tmp_path / "lib.a"
    file.write_bytes(static_library("a_name_longer_than_a_header.o", b"odd", ["one", "three"]))
    assert run(tool("ar"), "p", file, "a_name_longer_than_a_header.o") == b"odd"
