"""Measure inverse kinematics beside Pinocchio, on random targets that can be reached; figures to docs/kinematics.md.

    python tools/inverse_kinematics.py [--targets 100000] [--peer 1000] [--no-table]

Targets are the poses of uniformly random coordinates within the limits, computed by Pinocchio, which also judges the
answers. Both start from the middle of the limits, take further starts where that fails, and stop at 0.1 mm and 1 mrad.
Rates are per second of the processor, one thread each. Fails where fewer than 99.5 % are solved, or the rate is less
than twenty times Pinocchio's.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin
from documents import ROOT, replace_section

import kinema as km
from kit.assets import SHARED_ASSETS

TABLE = ROOT / "docs" / "kinematics.md"
MARKS = "<!-- figures begin -->", "<!-- figures end -->"
POS_TOL, ROT_TOL = 1e-4, 1e-3
SOLVED, TIMES = 0.995, 20.0
STARTS, STEPS = 50, 30
DAMPINGS = (1e-3, 1e-2, 3e-2)
"""Of which the peer takes the one that suits it best."""


@dataclass
class Case:
    """A robot, the links that are to be somewhere, and the joints that may move."""

    name: str
    file: str
    links: list[str]
    joints: list[str] = field(default_factory=list)
    turned: bool = True
    """Whether orientations matter."""


CASES = [
    Case("Panda, the hand", "urdf/panda/panda.urdf", ["panda_link8"], [f"panda_joint{i}" for i in range(1, 8)]),
    Case(
        "Talos, the left hand",
        "mjcf/pal_talos/talos.xml",
        ["arm_left_7_link"],
        [f"arm_left_{i}_joint" for i in range(1, 8)],
    ),
    Case(
        "Go2, four feet",
        "urdf/go2/example-robot-data/robots/go2_description/urdf/go2.urdf",
        [f"{leg}_foot" for leg in ("FL", "FR", "RL", "RR")],
        [f"{leg}_{joint}_joint" for leg in ("FL", "FR", "RL", "RR") for joint in ("hip", "thigh", "calf")],
        turned=False,
    ),
]


@dataclass
class Figure:
    """What came out."""

    case: Case
    targets: int
    solved: float
    starts: float
    steps: float
    rate: float
    """Targets to a second of the processor."""
    peer_solved: float
    peer_steps: float
    peer_rate: float
    peer_step: float
    """Seconds."""

    @property
    def times(self) -> float:
        return self.rate / self.peer_rate


# ------------------------------------------------------------------------------------------------------------ the peer


class Peer:
    """Pinocchio, with only the joints that may move."""

    def __init__(self, robot: km.Robot, file: Path, case: Case) -> None:
        with tempfile.TemporaryDirectory() as folder:
            if file.suffix != ".urdf":  # of MJCF it reads less than there is
                file = Path(folder) / "robot.urdf"
                km.write(robot, file)
            whole = pin.buildModelFromUrdf(str(file))
        others = [whole.getJointId(n) for n in whole.names if n not in case.joints and n != "universe"]
        self.model = pin.buildReducedModel(whole, others, pin.neutral(whole))
        self.data = self.model.createData()
        self.frames = [self.model.getFrameId(link) for link in case.links]
        self.names = list(self.model.names)[1:]
        self.turned = case.turned
        self.lower, self.upper = self.model.lowerPositionLimit, self.model.upperPositionLimit

    def poses(self, q: np.ndarray) -> list[Any]:
        pin.framesForwardKinematics(self.model, self.data, q)
        return [self.data.oMf[f].copy() for f in self.frames]

    def errors(self, q: np.ndarray, targets: list[Any]) -> tuple[float, float]:
        """The largest of places and of angles."""
        found = self.poses(q)
        places = max(float(np.linalg.norm(a.translation - b.translation)) for a, b in zip(found, targets, strict=True))
        turns = [
            float(np.linalg.norm(pin.log3(b.rotation @ a.rotation.T))) for a, b in zip(found, targets, strict=True)
        ]
        return places, max(turns) if self.turned else 0.0

    def solve(self, targets: list[Any], start: np.ndarray, starts: np.ndarray, damping: float) -> tuple[bool, int]:
        """Damped least squares as people write it down, from one start after the other."""
        taken = 0
        for q in (start, *starts):
            for _ in range(STEPS):
                taken += 1
                error, jacobian = self._missing(q, targets)
                if error is None:
                    return True, taken
                weighed = jacobian @ jacobian.T
                weighed[np.diag_indices_from(weighed)] += damping**2
                step = jacobian.T @ np.linalg.solve(weighed, error)
                q = np.clip(pin.integrate(self.model, q, step), self.lower, self.upper)
        return False, taken

    def _missing(self, q: np.ndarray, targets: list[Any]) -> tuple[np.ndarray | None, np.ndarray]:
        model, data = self.model, self.data
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        errors, rows, reached = [], [], True
        for frame, target in zip(self.frames, targets, strict=True):
            at = data.oMf[frame]
            missing = target.translation - at.translation
            reached &= bool(missing @ missing < POS_TOL**2)
            jacobian = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
            if self.turned:
                turn = pin.log3(target.rotation @ at.rotation.T)
                reached &= bool(turn @ turn < ROT_TOL**2)
                missing = np.concatenate([missing, turn])
            else:
                jacobian = jacobian[:3]
            errors.append(missing)
            rows.append(jacobian)
        if reached:
            return None, rows[0]
        return np.concatenate(errors), np.concatenate(rows)


# ---------------------------------------------------------------------------------------------------------- measuring


def measure(case: Case, n: int, n_peer: int) -> Figure:
    file = SHARED_ASSETS / case.file
    robot = km.read(file)
    assert isinstance(robot, km.Robot)
    peer = Peer(robot, file, case)
    kin = km.Kinematics(robot, fixed=True, threads=1)
    places = [kin.dof_names.index(name) for name in peer.names]
    rng = np.random.default_rng(0)
    drawn = rng.uniform(peer.lower, peer.upper, (n, len(places)))
    targets = [peer.poses(q) for q in drawn]
    start = kin.qpos0
    start[places] = 0.5 * (peer.lower + peer.upper)
    base = base_of(kin, case.links[0], start, peer.poses(start[places])[0])
    found_at = [[base * t[k] for t in targets] for k in range(len(case.links))]
    poss = [np.array([t.translation for t in own]) for own in found_at]
    quats = [np.array([pin.Quaternion(t.rotation).coeffs()[[3, 0, 1, 2]] for t in own]) for own in found_at]
    asked: dict[str, Any] = {"init_qpos": start, "dofs": peer.names, "pos_tol": 0.9 * POS_TOL, "rot_tol": 0.9 * ROT_TOL}
    asked |= {"max_samples": STARTS, "max_solver_iters": STEPS}
    turned: Any = quats if case.turned else None
    kin.inverse_kinematics(case.links, poss, turned, **asked)  # compiles
    began = time.process_time()
    found = kin.inverse_kinematics(case.links, poss, turned, **asked)
    rate = n / (time.process_time() - began)
    answers = found.qpos[:, places]
    within = ((answers >= peer.lower - 1e-6) & (answers <= peer.upper + 1e-6)).all(axis=1)
    judged = np.array([peer.errors(q, t) for q, t in zip(answers, targets, strict=True)])
    solved = within & (judged[:, 0] < POS_TOL) & (judged[:, 1] < ROT_TOL)
    starts = rng.uniform(peer.lower, peer.upper, (STARTS - 1, len(places)))
    best = max((run_peer(peer, targets[:n_peer], start[places], starts, x) for x in DAMPINGS), key=lambda x: x[2])
    return Figure(case, n, solved.mean(), found.attempts.mean(), found.iterations.mean(), rate, *best)


def base_of(kin: km.Kinematics, link: str, start: np.ndarray, theirs: Any) -> Any:
    """Where the peer's world is in ours: URDF has no place for a robot's own base."""
    pos, quat = kin.forward_kinematics(start)
    number = kin.link_names.index(link)
    w, x, y, z = quat[0, number]
    return pin.SE3(pin.Quaternion(w, x, y, z).matrix(), pos[0, number]) * theirs.inverse()


def run_peer(
    peer: Peer, targets: list[Any], start: np.ndarray, starts: np.ndarray, damping: float
) -> tuple[float, float, float, float]:
    """Solved, steps, targets to a second of the processor, and seconds to a step."""
    began = time.process_time()
    results = [peer.solve(target, start, starts, damping) for target in targets]
    spent = time.process_time() - began
    solved, steps = (np.array(x, float) for x in zip(*results, strict=True))
    return solved.mean(), steps.mean(), len(targets) / spent, spent / steps.sum()


def table(figures: list[Figure]) -> str:
    lines = [
        "| | targets | solved | starts | steps | per second | Pinocchio: solved | steps | µs | per second | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for f in figures:
        ours = [f"{f.targets:,}", f"{100 * f.solved:.2f} %", f"{f.starts:.2f}", f"{f.steps:.1f}", f"{f.rate:,.0f}"]
        peer = [
            f"{100 * f.peer_solved:.1f} %",
            f"{f.peer_steps:.1f}",
            f"{1e6 * f.peer_step:.0f}",
            f"{f.peer_rate:,.0f}",
        ]
        lines += [f"| {' | '.join([f.case.name, *ours, *peer, f'{f.times:,.0f}'])} |"]
    machine = f"One thread of {platform.machine()}, Python {platform.python_version()}, Pinocchio {pin.__version__}."
    return "\n".join([*lines, "", machine])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=100_000)
    parser.add_argument("--peer", type=int, default=1_000)
    parser.add_argument("--no-table", action="store_true")
    asked = parser.parse_args()
    if not SHARED_ASSETS.exists():
        print("the shared robots are not beside this checkout")
        return 0
    figures = [measure(case, asked.targets, asked.peer) for case in CASES]
    text = table(figures)
    print(text)
    if not asked.no_table:
        replace_section(TABLE, MARKS, [text])
    bad = [f.case.name for f in figures if f.solved < SOLVED or f.times < TIMES]
    for name in bad:
        print(f"{name}: below the mark", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
