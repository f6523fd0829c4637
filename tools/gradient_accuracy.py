"""Compare the derivatives of a step with finite differences, for every robot of the corpus.

    python tools/gradient_accuracy.py [--states 50] [--parameters all] [--entries 6] [--no-table] [FILE ...]

States of a run with random actions, with a floor where the file has none. *A* and *B* are compared with extrapolated
central differences by every state variable and control, and gradients by parameters of the model with those by some
entries of each parameter. Entries within reach of a kink (contact begins or ends, friction starts to slide, a limit is
reached) are counted apart, with those that equal the difference on one side. The table goes to docs/gradients.md.
Ends with 1 where fewer than 98 % of the states are within 1e-6.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from documents import ROOT, replace_section

import kinema as km
from kinema.core import Array, KinemaError
from kinema.dynamics.model_parameters import MODEL_PARAMETERS
from kinema.scene.linearization import compare_with_differences
from kit.assets import EXAMPLES, all_assets, asset_id

TABLE = ROOT / "docs" / "gradients.md"
MARKS = ("<!-- accuracy -->", "<!-- end of accuracy -->")
FRAGMENTS = {"talos.xml"}
"""Files that are only meant to be included."""
HEAD = (
    "| robot | dofs | contacts | smooth states | A, B: median, largest error | within 1e-6 | one-sided entries, others "
    "| parameters | gradients: median, largest error | within 1e-6 | one-sided, others |",
    "|---" * 11 + "|",
)
BOUND, REQUIRED_SHARE = 1e-6, 0.98
KINK = 1e-6
"""Forward and backward differences that differ by more, relative to the largest of their row, are at a kink."""
PARAMETER_STEP = 1e-3
"""Step of the differences by a parameter, relative to its typical magnitude."""
MIN_CHANGE = 1e-7
"""Change of the next state by such a step from which on gradients are compared: differences have errors of 1e-14."""
N_ENVS_PER_CHECK = 10
"""Environments of which differences are taken at once, which bounds the memory."""


@dataclass(slots=True)
class Accuracy:
    """Errors of the derivatives of a robot."""

    n_dofs: int
    n_contacts: float = 0.0
    """Mean number of contacts."""
    errors: list[float] = field(default_factory=list)
    """Largest error of each state, of its smooth entries."""
    n_smooth_states: int = 0
    """States in which all entries are smooth."""
    n_one_sided: int = 0
    n_undetermined: int = 0
    parameters: list[str] = field(default_factory=list)
    """Parameters by which gradients were compared."""
    refused: list[str] = field(default_factory=list)
    """Parameters that act in a way that has no gradient."""
    parameter_errors: list[float] = field(default_factory=list)
    """Largest error of each state and parameter."""
    worst_parameters: dict[str, float] = field(default_factory=dict)
    """Largest error of each parameter."""
    n_one_sided_gradients: int = 0
    undetermined: Counter[str] = field(default_factory=Counter)
    """Entries of each parameter whose gradient is not smooth and neither of both sides."""
    seconds: float = 0.0

    def share(self, errors: Sequence[float]) -> float:
        """Share of errors within the bound."""
        return float(np.mean(np.array(errors) <= BOUND)) if errors else 1.0

    @property
    def is_accurate(self) -> bool:
        """Whether enough states are within the bound."""
        return all(self.share(x) >= REQUIRED_SHARE for x in (self.errors, self.parameter_errors))


# --------------------------------------------------------------------------------------------------------------- states


class RandomRun:
    """A robot on a floor after steps of random actions, different ones in each environment."""

    def __init__(self, file: Path, n_envs: int, n_controls: int = 60, n_steps: int = 5) -> None:
        """Simulate `n_controls` random controls for `n_steps` each."""
        self.scene, self.robot = _on_floor(file, n_envs)
        self._generator = np.random.default_rng(0)
        self.by = "ctrl" if self.scene.built.model.n_actuators else "position"
        self.robot.set_qvel(0.3 * self._generator.normal(size=(n_envs, self.robot.n_dofs)))
        for _ in range(n_controls):
            self.control = self._act()
            self.scene.step(n_steps)
        engine = self.scene.built.engine
        arrays = {"qpos": "qpos", "qvel": "vel"}
        if self.scene.built.model.actuators.has_activation.any():
            arrays["act"] = "act"
        self.state = {name: np.array(engine.read_array(x), np.float64).T.copy() for name, x in arrays.items()}
        """Parts of the present state, (n_envs, n) each."""
        self.n_contacts = float(np.asarray(self.scene.get_contacts()["valid_mask"]).sum(axis=1).mean())
        """Mean number of contacts of an environment."""

    def present(self, name: str) -> Array:
        """Present values of a parameter."""
        engine = self.scene.built.engine
        if name in ("kp", "kv"):  # by default chosen when a scene is built
            return np.array(engine.read_array(name), np.float64)[:, 0]
        return MODEL_PARAMETERS[name].read(engine.model)

    def _act(self) -> Array:
        """Apply random controls within the range of the actuators, or targets of the dofs."""
        robot, n_envs = self.robot, self.scene.n_envs
        if self.by == "position":
            values = self._generator.uniform(-0.3, 0.3, (n_envs, robot.n_dofs))
            dofs = np.flatnonzero(robot.scene.built.model.dofs.q_idx >= 0)  # not those of quaternions
            robot.control_dofs_position(values[:, dofs], dofs)
            return values
        ranges = (np.nan_to_num(np.asarray(x, float), posinf=1.0, neginf=-1.0) for x in robot.get_control_range())
        lower, upper = (np.clip(x, -10.0, 10.0) for x in ranges)
        values = self._generator.uniform(lower, upper, (n_envs, len(lower)))
        robot.control(values)
        return values


def _on_floor(file: Path, n_envs: int) -> tuple[km.Scene, km.Entity]:
    """Scene with a robot, and a floor below its lowest point unless the file has one."""
    alone = km.Scene(device="cpu", precision="double", quiet=True)
    robot = alone.add(str(file))
    alone.build(n_envs=1)
    scene = km.Scene(device="cpu", precision="double", quiet=True, iterations=100)  # derivatives are of solutions
    if not {"plane", "heightfield"} & set(alone.built.model.geoms.types):
        lowest = float(np.nan_to_num(np.asarray(robot.get_AABB())[0, 0, 2]))
        scene.add(km.Plane(), pos=(0.0, 0.0, lowest - 0.001))
    entity = scene.add(str(file))
    scene.build(n_envs=n_envs)
    return scene, entity


# --------------------------------------------------------------------------------------------------------- comparisons


def compare_steps(run: RandomRun, found: Accuracy) -> None:
    """Compare A and B at the states of a run with differences."""
    n_envs = run.scene.n_envs
    for start in range(0, n_envs, N_ENVS_PER_CHECK):
        check = run.scene.check_gradients(
            slice(start, min(start + N_ENVS_PER_CHECK, n_envs)), by=run.by, tolerance=KINK
        )
        is_smooth = ~np.isnan(check.errors)
        found.errors += np.where(is_smooth, check.errors, 0.0).max(axis=(1, 2), initial=0.0).tolist()
        found.n_smooth_states += int(is_smooth.all(axis=(1, 2)).sum())
        found.n_one_sided += check.n_one_sided
        found.n_undetermined += check.n_entries - check.n_smooth - check.n_one_sided


def compare_parameters(run: RandomRun, names: Sequence[str], n_entries: int, found: Accuracy) -> None:
    """Compare gradients of random functions of the next state by entries of parameters with differences."""
    model, generator = run.scene.built.model, np.random.default_rng(1)
    names = [name for name in names if MODEL_PARAMETERS[name].variable_entries(model).any()]
    names, found.refused = _with_gradients(run, names)
    if not names:
        return
    found.parameters = names

    simulate = partial(km.gradients.rollout, run.scene, control=run.control[None], state=run.state, by=run.by)
    trajectory, pullback = simulate(params=dict.fromkeys(names))
    parts = {name: getattr(trajectory, name) for name in ("qpos", "qvel", "act")}
    weights = {name: generator.normal(size=x.shape) for name, x in parts.items()}
    by_params = pullback(**{name: x for name, x in weights.items() if x.size})["params"]
    row_weights = np.concatenate([x[0] for x in weights.values()], axis=1)

    def cost(name: str, values: Array | None) -> Array:
        """Weighted change of the next state by other values of a parameter, (n_envs,)."""
        moved, _ = simulate(params={**dict.fromkeys(names), name: values})
        changes = [getattr(moved, part)[0] - x[0] for part, x in parts.items()]
        return np.asarray((np.concatenate(changes, axis=1) * row_weights).sum(axis=1))

    for name in names:
        parameter = MODEL_PARAMETERS[name]
        values = run.present(name)
        steps = PARAMETER_STEP * parameter.steps(model, values)
        entries = np.argwhere(parameter.variable_entries(model))
        entries = entries[generator.permutation(len(entries))[:n_entries]]
        by_step = by_params[name] * steps
        scale = np.maximum(np.abs(by_step).reshape(len(by_step), -1).max(axis=1), MIN_CHANGE)
        compared = compare_with_differences(
            by_step[(slice(None), *entries.T)].T,
            scale,
            partial(_differences, partial(cost, name), values, steps, entries),
            1.0,
            KINK,
        )
        is_smooth = ~np.isnan(compared.errors)
        errors = np.where(is_smooth, compared.errors, 0.0)
        found.parameter_errors += errors.max(axis=0).tolist()
        found.worst_parameters[name] = float(errors.max())
        found.n_one_sided_gradients += int(compared.is_one_sided.sum())
        undetermined = int((~is_smooth & ~compared.is_one_sided).sum())
        found.undetermined[name] += undetermined


def _differences(
    cost: Callable[[Array], Array], values: Array, steps: Array, entries: Array, h: float
) -> tuple[Array, Array]:
    """Forward and backward differences of a cost by entries of a parameter, (n_entries, n_envs) each."""
    sides: tuple[list[Array], list[Array]] = ([], [])
    for entry in map(tuple, entries):
        for side, sign in zip(sides, (1.0, -1.0), strict=True):
            moved = values.copy()
            moved[entry] += sign * h * steps[entry]
            side.append(sign / h * cost(moved))
    return np.array(sides[0]), np.array(sides[1])


def _with_gradients(run: RandomRun, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Parameters by which the step has gradients together, and the others."""

    def is_accepted(names: Sequence[str]) -> bool:
        try:
            trajectory, pullback = km.gradients.rollout(
                run.scene, control=run.control[None], state=run.state, params=dict.fromkeys(names), by=run.by
            )
            pullback(qvel=np.zeros_like(trajectory.qvel))
        except KinemaError as error:
            if "has no gradient" not in str(error):
                raise
            return False
        return True

    accepted = list(names)
    if not accepted or is_accepted(accepted):
        return accepted, []
    refused = [name for name in accepted if not is_accepted([name])]
    accepted = [name for name in accepted if name not in refused]
    return accepted, refused


def measure(file: Path, n_states: int, parameters: Sequence[str], n_entries: int) -> Accuracy | str:
    """Errors of all derivatives of a robot, or why there are none."""
    begin = time.perf_counter()
    try:
        run = RandomRun(file, n_states)
        found = Accuracy(run.robot.n_dofs, run.n_contacts)
        compare_steps(run, found)
        compare_parameters(run, parameters, n_entries, found)
    except (KinemaError, ModuleNotFoundError) as error:
        return str(error)
    found.seconds = time.perf_counter() - begin
    return found


# --------------------------------------------------------------------------------------------------------------- table


def main(arguments: argparse.Namespace) -> int:
    names = (
        list(MODEL_PARAMETERS) if arguments.parameters == "all" else [x for x in arguments.parameters.split(",") if x]
    )
    work = partial(measure, n_states=arguments.states, parameters=names, n_entries=arguments.entries)
    accurate = True
    print("\n".join(HEAD))
    with ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(work, file): file for file in arguments.files}
        rows = {}
        for future in as_completed(futures):
            file, found = futures[future], future.result()
            if isinstance(found, str):
                print(f"{asset_id(file)}: left out: {found}", flush=True)
                continue
            accurate &= found.is_accurate
            rows[file] = _line(file, found)
            print(rows[file], flush=True)
            worst = {name: f"{x:.0e}" for name, x in found.worst_parameters.items() if x > BOUND}
            odd = {name: n for name, n in found.undetermined.items() if n}
            if worst or odd or found.refused:
                refused = ", ".join(found.refused)
                print(f"  inaccurate: {worst}; undetermined: {odd}; refused: {refused}", flush=True)
    if arguments.table:
        replace_section(TABLE, MARKS, [*HEAD, *(rows[file] for file in arguments.files if file in rows)])
    return 0 if accurate else 1


def _line(file: Path, found: Accuracy) -> str:
    def of(errors: list[float]) -> str:
        if not errors:
            return "– | –"
        share = 100.0 * found.share(errors)
        return f"{np.median(errors):.0e}, {max(errors):.0e} | {share:.{0 if share == 100.0 else 1}f} %"

    columns = [
        *(asset_id(file), found.n_dofs, f"{found.n_contacts:.1f}"),
        *(f"{found.n_smooth_states} of {len(found.errors)}", of(found.errors)),
        *(f"{found.n_one_sided}, {found.n_undetermined}", len(found.parameters), of(found.parameter_errors)),
        f"{found.n_one_sided_gradients}, {found.undetermined.total()}",
    ]
    return f"| {' | '.join(map(str, columns))} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    robots = [
        *(f for f in sorted(EXAMPLES.glob("*/*.xml")) if f.name != "package.xml"),
        *all_assets("mjcf/**/*.xml", "urdf/**/*.urdf"),
    ]
    parser.add_argument("files", nargs="*", type=Path, default=[f for f in robots if f.name not in FRAGMENTS])
    parser.add_argument("--states", type=int, default=50)
    parser.add_argument("--parameters", default="all", help="names, separated by commas; empty for none")
    parser.add_argument("--entries", type=int, default=6, help="values of each parameter")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--no-table", dest="table", action="store_false")
    sys.exit(main(parser.parse_args()))
