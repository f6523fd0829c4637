"""Measure functions of a compiled library per call beside Pinocchio and MuJoCo from C++; figures to docs/compile.md.

    python tools/library_speed.py [--rounds 40] [--no-table]

The arm is a KUKA iiwa 14 with seven joints. RNEA is called with random positions, velocities and accelerations:
Pinocchio's is `pinocchio::rnea`, compiled from its headers, MuJoCo's the functions that `mj_inverse` is made of. A step
has random position targets, MuJoCo's file and integrator, and contacts of the arm with itself and a floor. One program,
compiled with -O3 for this machine, calls all of them alternately; the fastest of the rounds counts. Needs g++, Eigen
(`apt install g++ libeigen3-dev`), and the development packages. Fails where RNEA is less than three times as fast as
Pinocchio's, or a step less than three times as fast as MuJoCo's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

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
COMPILER = ["g++", "-std=c++17", "-O3", "-march=native", "-DNDEBUG", "-w"]
BUILD = ROOT / "build" / "library_speed"
TIMES = 3.0
TOLERANCE = 1e-9
ARM = SHARED_ASSETS / "mjcf/kuka_iiwa_14/iiwa14.xml"
PINOCCHIO = r"""
#include <pinocchio/fwd.hpp>
#include <pinocchio/multibody.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/kinematics.hpp>
#include <pinocchio/algorithm/rnea.hpp>

using Matrix = Eigen::Matrix<double, 4, 4, Eigen::RowMajor>;
using Tensor = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
using Vector = Eigen::Map<const Eigen::Matrix<double, 7, 1>>;

static pinocchio::Model make_model() {
    pinocchio::Model model;
@JOINTS@
    return model;
}

static const pinocchio::Model &model() {
    static const pinocchio::Model made = make_model();
    return made;
}

static pinocchio::Data &data() {
    static pinocchio::Data made(model());
    return made;
}

extern "C" {
void pinocchio_fk(const double *q) { pinocchio::forwardKinematics(model(), data(), Vector(q)); }
void pinocchio_crba(const double *q) { pinocchio::crba(model(), data(), Vector(q)); }
const double *pinocchio_rnea(const double *q, const double *v, const double *a) {
    pinocchio::rnea(model(), data(), Vector(q), Vector(v), Vector(a));
    return data().tau.data();
}
void pinocchio_aba(const double *q, const double *v, const double *tau) {
    pinocchio::aba(model(), data(), Vector(q), Vector(v), Vector(tau));
}
}
"""
"""Functions of Pinocchio, which take minutes to compile."""
PROGRAM = r"""
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>
#include <mujoco/mujoco.h>
#include "iiwa.hpp"

extern "C" {
void pinocchio_fk(const double *q);
void pinocchio_crba(const double *q);
const double *pinocchio_rnea(const double *q, const double *v, const double *a);
void pinocchio_aba(const double *q, const double *v, const double *tau);
}

constexpr int n_calls = 512;
using clock_type = std::chrono::steady_clock;

template <typename F>
double nanoseconds(F &&call) {
    const auto began = clock_type::now();
    for (int k = 0; k < n_calls; k++) call(k);
    return std::chrono::duration<double, std::nano>(clock_type::now() - began).count() / n_calls;
}

double fastest(const std::vector<double> &values) { return *std::min_element(values.begin(), values.end()); }

int main(int, char **arguments) {
    const int n_rounds = std::atoi(arguments[1]);
    mjModel *m = mj_loadModel(arguments[2], nullptr);
    mjData *d = mj_makeData(m), *at = mj_makeData(m);
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(-1.0, 1.0);
    std::vector<std::array<double, 7>> q(n_calls), v(n_calls), a(n_calls), target(n_calls);
    for (int k = 0; k < n_calls; k++)
        for (int i = 0; i < 7; i++) {
            q[k][i] = 2.0 * uniform(random), v[k][i] = uniform(random), a[k][i] = uniform(random);
            const mjtNum *range = m->actuator_ctrlrange + 2 * i;
            target[k][i] = 0.25 * (range[0] + range[1]) + 0.5 * range[1] * uniform(random);
        }
    std::array<double, 7> tau{};
    double worst = 0.0;
    const auto ours_rnea = [&](int k) { iiwa::rnea(q[k], v[k], a[k], tau); };
    const double *theirs = nullptr;
    const auto pinocchio_rnea_of = [&](int k) { theirs = pinocchio_rnea(q[k].data(), v[k].data(), a[k].data()); };
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
    const auto pinocchio_crba_of = [&](int k) { pinocchio_crba(q[k].data()); };
    const auto ours_aba = [&](int k) { iiwa::aba(q[k], v[k], a[k], tau); };
    const auto pinocchio_aba_of = [&](int k) { pinocchio_aba(q[k].data(), v[k].data(), a[k].data()); };
    const auto ours_fk = [&](int k) {
        iiwa::fk(q[k], pos, quat);
    };
    const auto pinocchio_fk_of = [&](int k) { pinocchio_fk(q[k].data()); };
    for (int k = 0; k < n_calls; k++) {
        ours_rnea(k), pinocchio_rnea_of(k);
        for (int i = 0; i < 7; i++) worst = std::max(worst, std::abs(tau[i] - theirs[i]));
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
        times[row++].push_back(nanoseconds(pinocchio_rnea_of));
        times[row++].push_back(nanoseconds(mujoco_rnea));
        times[row++].push_back(nanoseconds(ours_step));
        times[row++].push_back(nanoseconds(mujoco_step));
        times[row++].push_back(nanoseconds(ours_fk));
        times[row++].push_back(nanoseconds(pinocchio_fk_of));
        times[row++].push_back(nanoseconds(ours_crba));
        times[row++].push_back(nanoseconds(pinocchio_crba_of));
        times[row++].push_back(nanoseconds(ours_aba));
        times[row++].push_back(nanoseconds(pinocchio_aba_of));
    }
    const double n_steps = double(n_calls) * n_rounds;
    std::printf("{\"difference\": %g, \"contacts\": [%g, %g], \"times\": [", worst, contacts / n_steps,
                their_contacts / n_steps);
    for (int i = 0; i < 11; i++) std::printf("%s%.2f", i ? ", " : "", fastest(times[i]));
    std::puts("]}");
}
"""


QUANTITIES = (
    ("forward kinematics", "fk", "Pinocchio", 5, 6),
    ("RNEA", "rnea", "Pinocchio", 0, 1),
    ("RNEA", "rnea", "MuJoCo", 0, 2),
    ("CRBA", "crba", "Pinocchio", 7, 8),
    ("ABA", "aba", "Pinocchio", 9, 10),
    ("step of the simulation", "step", "MuJoCo", 3, 4),
)
"""Quantity, function, peer, and the places of both times."""
REQUIRED = {("rnea", "Pinocchio"), ("step", "MuJoCo")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--no-table", action="store_true", help="print only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), options.rounds)
    times = found["times"]
    lines = ["| | Kinema | peer | |", "|---|---|---|---|"]
    for quantity, function, peer, ours, theirs in QUANTITIES:
        ratio = times[theirs] / times[ours]
        lines.append(
            f"| {quantity} (`{function}`) | {times[ours]:,.0f} ns | {peer} {times[theirs]:,.0f} ns | {ratio:.1f}x |"
        )
    versions = f"Pinocchio {pinocchio.__version__}, MuJoCo {mujoco.__version__}, {processor()}, one thread"
    lines += ["", f"{versions}. Joint forces of RNEA differ from Pinocchio's by at most {found['difference']:.0e} N m."]
    print("\n".join(lines))
    print(f"contacts of a step: {found['contacts']}")
    if not options.no_table:
        replace_section(TABLE, MARKS, ["", *lines, ""])
    slow = [(f, p) for _, f, p, a, b in QUANTITIES if (f, p) in REQUIRED and times[b] < TIMES * times[a]]
    for function, peer in slow:
        print(f"{function} is less than {TIMES:g} times as fast as {peer}", file=sys.stderr)
    return 1 if slow or found["difference"] > TOLERANCE else 0


def processor() -> str:
    """Name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def pinocchio_joints() -> str:
    """C++ code that adds the joints and bodies of Pinocchio's model of the arm."""
    model, lines = pinocchio.buildModelFromMJCF(str(ARM)), list[str]()
    for i in range(1, model.njoints):
        pose, inertia, joint = model.jointPlacements[i].homogeneous, model.inertias[i], model.joints[i].shortname()
        numbers = [", ".join(map(repr, x.ravel().tolist())) for x in (pose, inertia.lever, inertia.inertia)]
        lines += [
            f"    {{ const double pose[] = {{{numbers[0]}}}, lever[] = {{{numbers[1]}}}, tensor[] = {{{numbers[2]}}};",
            "      const Eigen::Matrix4d placement = Eigen::Map<const Matrix>(pose);",
            f'      model.addJoint({model.parents[i]}, pinocchio::{joint}(), pinocchio::SE3(placement), "{i}");',
            f"      model.appendBodyToJoint({i}, pinocchio::Inertia({inertia.mass!r},",
            "        Eigen::Map<const Eigen::Vector3d>(lever),",
            "        pinocchio::Symmetric3(Eigen::Matrix3d(Eigen::Map<const Tensor>(tensor))))); }",
        ]
    lines.append(f"    model.armature << {', '.join(map(repr, model.armature.tolist()))};")
    return "\n".join(lines)


def pinocchio_object(prefix: Path) -> Path:
    """Object file of the functions of Pinocchio, compiled again only if their source has changed."""
    source = PINOCCHIO.replace("@JOINTS@", pinocchio_joints())
    folder = BUILD / hashlib.sha256(source.encode()).hexdigest()[:16]
    result = folder / "pinocchio.o"
    if not result.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pinocchio.cpp").write_text(source)
        includes = ["-I/usr/include/eigen3", f"-I{prefix}/include"]
        subprocess.run([*COMPILER, *DEFINITIONS, *includes, "-c", folder / "pinocchio.cpp", "-o", result], check=True)
    return result


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """Compile library and program, and run them."""
    prefix, theirs = Path(pinocchio.__file__).parents[4], Path(mujoco.__file__).parent
    peer = pinocchio_object(prefix)
    spec = mujoco.MjSpec.from_file(str(ARM))
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=(0, 0, 1), name="floor")
    mujoco.mj_saveModel(spec.compile(), str(folder / "scene.mjb"), None)
    scene = km.Scene(precision="double", quiet=True)
    scene.add(ARM)
    scene.add(km.Plane())
    scene.build()
    km.compile_library(scene, folder, name="iiwa", functions=["fk", "rnea", "crba", "aba", "step"])
    (folder / "run.cpp").write_text(PROGRAM)
    sources = [folder / "run.cpp", peer, folder / "libiiwa.a", next(theirs.glob("libmujoco.so*"))]
    options = [f"-I{folder}", f"-I{theirs}/include", f"-Wl,-rpath,{theirs}"]
    subprocess.run([*COMPILER, *options, *sources, "-o", folder / "run"], check=True)
    command = [folder / "run", str(rounds), folder / "scene.mjb"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
