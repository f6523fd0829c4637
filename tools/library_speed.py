"""Measure functions of a compiled library per call beside Pinocchio and MuJoCo from C++; figures to docs/compile.md.

    python tools/library_speed.py [--rounds 40] [--no-table]

The arm is a KUKA iiwa 14 with seven joints. RNEA is called with random positions, velocities and accelerations:
Pinocchio's is `pinocchio::rnea`, compiled from its headers, MuJoCo's the functions that `mj_inverse` is made of. A step
has random position targets, MuJoCo's file and integrator, and contacts of the arm with itself and a floor. One program,
compiled with -O3 for this machine, calls all of them alternately; the median of the rounds counts. Needs g++, Eigen
(`apt install g++ libeigen3-dev`), and the development packages. Fails where RNEA is less than three times as fast as
Pinocchio's, or a step less than three times as fast as MuJoCo's.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import mujoco
import pinocchio
from documents import ROOT, replace_section

import kinema as km
from kit.assets import SHARED_ASSETS

TABLE = ROOT / "docs" / "compile.md"
MARKS = "<!-- figures begin -->", "<!-- figures end -->"
DEFINITIONS = [
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=12",
]
"""Macros of Pinocchio's own packages; without its shared library, which is built for any x86-64 processor."""
TIMES = 3.0
ARM = SHARED_ASSETS / "mjcf/kuka_iiwa_14/iiwa14.xml"
PROGRAM = r"""
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>
#include <pinocchio/fwd.hpp>
#include <pinocchio/multibody.hpp>
#include <mujoco/mujoco.h>
#include <pinocchio/algorithm/rnea.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/kinematics.hpp>
#include <pinocchio/algorithm/kinematics.hpp>
#include "iiwa.hpp"

using Matrix = Eigen::Matrix<double, 4, 4, Eigen::RowMajor>;
using Tensor = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;

pinocchio::Model make_model() {
    pinocchio::Model model;
@JOINTS@
    return model;
}

constexpr int n_calls = 512;
using clock_type = std::chrono::steady_clock;

template <typename F>
double nanoseconds(F &&call) {
    const auto began = clock_type::now();
    for (int k = 0; k < n_calls; k++) call(k);
    return std::chrono::duration<double, std::nano>(clock_type::now() - began).count() / n_calls;
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

int main(int, char **arguments) {
    const int n_rounds = std::atoi(arguments[1]);
    mjModel *m = mj_loadModel(arguments[2], nullptr);
    mjData *d = mj_makeData(m), *at = mj_makeData(m);
    pinocchio::Model model = make_model();
    for (int i = 0; i < model.nv; i++) model.armature[i] = m->dof_armature[i];
    pinocchio::Data data(model);
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(-1.0, 1.0);
    std::vector<std::array<double, 7>> q(n_calls), v(n_calls), a(n_calls), target(n_calls);
    for (int k = 0; k < n_calls; k++)
        for (int i = 0; i < 7; i++) {
            q[k][i] = 2.0 * uniform(random), v[k][i] = uniform(random), a[k][i] = uniform(random);
            const mjtNum *range = m->actuator_ctrlrange + 2 * i;
            target[k][i] = 0.25 * (range[0] + range[1]) + 0.5 * range[1] * uniform(random);
        }
    std::array<double, 7> tau{}, theirs{};
    double worst = 0.0;
    const auto ours_rnea = [&](int k) { iiwa::rnea(q[k], v[k], a[k], tau); };
    using Vector = Eigen::Map<const Eigen::Matrix<double, 7, 1>>;
    const auto pinocchio_rnea = [&](int k) {
        pinocchio::rnea(model, data, Vector(q[k].data()), Vector(v[k].data()), Vector(a[k].data()));
    };
    const auto mujoco_rnea = [&](int k) {
        std::memcpy(at->qpos, q[k].data(), sizeof q[k]);
        std::memcpy(at->qvel, v[k].data(), sizeof v[k]);
        std::memcpy(at->qacc, a[k].data(), sizeof a[k]);
        mj_kinematics(m, at);
        mj_comPos(m, at);
        mj_comVel(m, at);
        mj_rne(m, at, 1, at->qfrc_inverse);
    };
    std::array<double, 49> mass{};
    double pos[iiwa::n_links * 3], quat[iiwa::n_links * 4];
    const auto ours_crba = [&](int k) { iiwa::crba(q[k], mass); };
    const auto pinocchio_crba = [&](int k) { pinocchio::crba(model, data, Vector(q[k].data())); };
    const auto ours_aba = [&](int k) { iiwa::aba(q[k], v[k], a[k], tau); };
    const auto pinocchio_aba = [&](int k) {
        pinocchio::aba(model, data, Vector(q[k].data()), Vector(v[k].data()), Vector(a[k].data()));
    };
    const auto ours_fk = [&](int k) {
        iiwa::fk(q[k], pos, quat);
    };
    const auto pinocchio_fk = [&](int k) { pinocchio::forwardKinematics(model, data, Vector(q[k].data())); };
    for (int k = 0; k < n_calls; k++) {
        ours_rnea(k), pinocchio_rnea(k);
        for (int i = 0; i < 7; i++) worst = std::max(worst, std::abs(tau[i] - data.tau[i]));
    }
    static iiwa::simulation simulation;
    long contacts = 0, their_contacts = 0;
    const auto ours_step = [&](int k) {
        std::copy(target[k / 64].begin(), target[k / 64].end(), simulation.control.ctrl);
        simulation.step();
        contacts += static_cast<long>(simulation.state.n_contacts[0]);
    };
    const auto mujoco_step = [&](int k) {
        std::memcpy(d->ctrl, target[k / 64].data(), sizeof target[k]);
        mj_step(m, d);
        their_contacts += d->ncon;
    };
    std::vector<std::vector<double>> times(12);
    for (int round = 0; round < n_rounds; round++) {
        int row = 0;
        for (int i = 0; i < 64; i++)
            std::shuffle(target[i].begin(), target[i].end(), random);
        times[row++].push_back(nanoseconds(ours_rnea));
        times[row++].push_back(nanoseconds(pinocchio_rnea));
        times[row++].push_back(nanoseconds(mujoco_rnea));
        times[row++].push_back(nanoseconds(ours_step));
        times[row++].push_back(nanoseconds(mujoco_step));
        times[row++].push_back(nanoseconds(ours_fk));
        times[row++].push_back(nanoseconds(pinocchio_fk));
        times[row++].push_back(nanoseconds(ours_crba));
        times[row++].push_back(nanoseconds(pinocchio_crba));
        times[row++].push_back(nanoseconds(ours_aba));
        times[row++].push_back(nanoseconds(pinocchio_aba));
    }
    const double n_steps = double(n_calls) * n_rounds;
    std::printf("{\"difference\": %g, \"contacts\": %g, \"their_contacts\": %g, \"times\": [", worst, contacts / n_steps,
                their_contacts / n_steps);
    for (int i = 0; i < 11; i++) std::printf("%s%.2f", i ? ", " : "", median(times[i]));
    std::puts("]}");
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--no-table", action="store_true", help="print only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), options.rounds)
    print(json.dumps(found))
    return 0


def pinocchio_joints() -> str:
    """C++ code that adds the joints and bodies of Pinocchio's model of the arm."""
    model, lines = pinocchio.buildModelFromMJCF(str(ARM)), list[str]()
    for i in range(1, model.njoints):
        pose, inertia, joint = model.jointPlacements[i].homogeneous, model.inertias[i], model.joints[i].shortname()
        numbers = [", ".join(map(repr, x.ravel().tolist())) for x in (pose, inertia.lever, inertia.inertia)]
        lines += [
            f"    {{ const double pose[] = {{{numbers[0]}}}, lever[] = {{{numbers[1]}}}, tensor[] = {{{numbers[2]}}};",
            f"      const Eigen::Matrix4d placement = Eigen::Map<const Matrix>(pose);",
            f'      model.addJoint({model.parents[i]}, pinocchio::{joint}(), pinocchio::SE3(placement), "{i}");',
            f"      model.appendBodyToJoint({i}, pinocchio::Inertia({inertia.mass!r}, Eigen::Map<const Eigen::Vector3d>(lever),",
            "        pinocchio::Symmetric3(Eigen::Matrix3d(Eigen::Map<const Tensor>(tensor))))); }",
        ]
    return "\n".join(lines)


def measure(folder: Path, rounds: int) -> dict[str, object]:
    """Compile library and program, and run them."""
    prefix = Path(pinocchio.__file__).parents[4]
    theirs = Path(mujoco.__file__).parent
    model = mujoco.MjSpec.from_file(str(ARM))
    model.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 1), name="floor")
    mujoco.mj_saveModel(model.compile(), str(folder / "scene.mjb"), None)
    scene = km.Scene(precision="double", quiet=True)
    scene.add(ARM)
    scene.add(km.Plane())
    scene.build()
    km.compile_library(scene, folder, name="iiwa", functions=["fk", "rnea", "crba", "aba", "step"])
    (folder / "run.cpp").write_text(PROGRAM.replace("@JOINTS@", pinocchio_joints()))
    command = [
        "g++",
        "-std=c++17",
        "-O3",
        "-march=native",
        "-DNDEBUG",
        "-w",
        *DEFINITIONS,
        f"-I{folder}",
        "-I/usr/include/eigen3",
    ]
    command += [f"-I{theirs}/include", f"-I{prefix}/include", str(folder / "run.cpp"), str(folder / "libiiwa.a")]
    libraries = [next(theirs.glob("libmujoco.so*")), *prefix.glob("lib/libpinocchio_default.so")]
    command += [str(x) for x in libraries] + [
        f"-Wl,-rpath,{theirs}:{prefix}/lib",
        f"-Wl,-rpath-link,{prefix}/lib",
        "-o",
        str(folder / "run"),
    ]
    subprocess.run(command, check=True)
    out = subprocess.run(
        [folder / "run", str(rounds), folder / "scene.mjb"], check=True, capture_output=True, text=True
    ).stdout
    return json.loads(out.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
