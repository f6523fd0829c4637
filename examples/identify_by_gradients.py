"""Identify masses, friction and damping of an arm and of a tossed cube from recorded motion, by gradients.

    python examples/identify_by_gradients.py [--short] [--picture identified.svg]

Factors by which the guess of the parameters is wrong, up to 1.4, are found by BFGS on their logarithms. One backward
pass gives the gradient of the squared errors by all parameters (`params=` of `kinema.gradients.rollout`). BFGS starts
with the Hessian of Gauss and Newton, from random projections of the Jacobian of the errors: a backward pass each.

The recordings are simulated, without noise and with noise of a millimetre or milliradian. The cube is pushed by known
forces (`examples/experiments.py`): otherwise its mass had no effect on its motion.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from experiments import Array, Experiments, arm_experiments, cube_experiments
from photos import plot
from scipy.optimize import minimize

import kinema as km

NOISE, ROUNDS = 1e-3, 2
"""Standard deviation of measurements [m, rad], and starts of BFGS, each with another Hessian."""


def values_of(experiments: Experiments, factors: Array) -> dict[str, Array]:
    """Parameters: the guess times factors."""
    values = {name: np.array(x, float) for name, x in experiments.values.items()}
    for factor, (_, name, chosen) in zip(factors, experiments.unknown, strict=True):
        values[name].reshape(-1)[chosen] *= factor
    return values


def simulate(experiments: Experiments, factors: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Coordinates, and the map of a gradient by them to that by the logarithms of the factors."""
    values, scene = values_of(experiments, factors), experiments.scene
    options = {"control": experiments.forces, "state": experiments.state, "by": "force", "hold": experiments.hold}
    trajectory, pullback = km.gradients.rollout(scene, params=values, **options)

    def gradient(weights: Array) -> Array:
        found = pullback(qpos=weights)["params"]
        return np.array([(found[name] * values[name]).ravel()[chosen].sum() for _, name, chosen in experiments.unknown])

    return trajectory.qpos, gradient


def identify(experiments: Experiments, recorded: Array) -> tuple[Array, int]:
    """Factors that explain recorded coordinates best, and the number of gradients."""
    n, rng, scale = len(experiments.unknown), np.random.default_rng(0), 1.0 / (NOISE**2 * recorded.size)
    logarithms, n_gradients = np.zeros(n), 0

    def cost(logarithms: Array) -> tuple[float, Array]:
        coordinates, gradient = simulate(experiments, np.exp(logarithms))
        errors = coordinates - recorded
        return scale * np.square(errors).sum(), gradient(2.0 * scale * errors)

    for _ in range(ROUNDS):
        _, gradient = simulate(experiments, np.exp(logarithms))
        rows = np.array([gradient(rng.choice([-1.0, 1.0], recorded.shape)) for _ in range(3 * n)])
        inverse = np.linalg.inv(2.0 * scale * rows.T @ rows / len(rows))
        options = {"hess_inv0": 0.5 * (inverse + inverse.T), "gtol": 1e-4, "maxiter": 30}
        found = minimize(cost, logarithms, jac=True, method="BFGS", options=options)
        logarithms, n_gradients = found.x, n_gradients + found.nfev + len(rows)
    return np.exp(logarithms), n_gradients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="the cube only, without noise")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    systems = {"cube": cube_experiments} if options.short else {"arm": arm_experiments, "cube": cube_experiments}
    for name, build in systems.items():
        experiments, rng = build(), np.random.default_rng(0)
        truth = np.exp(rng.uniform(-0.34, 0.34, len(experiments.unknown)))
        clean, _ = simulate(experiments, truth)
        for noise, bound in ((0.0, 0.01), (NOISE, 0.05))[: 1 if options.short else 2]:
            start, recorded = time.process_time(), clean + noise * rng.normal(size=clean.shape)
            found, n = identify(experiments, recorded)
            errors = np.abs(found / truth - 1.0)
            print(f"{name}, noise {noise:g}: {len(truth)} parameters within {errors.max():.2%}")
            print(f"  {n} gradients, {time.process_time() - start:.0f} s of one core")
            assert errors.max() < bound, f"the parameters are found within {bound:.0%}"
            if options.picture and name == "cube" and not noise:
                guess, seconds = simulate(experiments, np.ones(len(truth)))[0], 0.01 * np.arange(len(clean))
                curves = {"recorded": recorded, "identified": simulate(experiments, found)[0], "guess": guess}
                lines = {label: (seconds, x[:, 0, 0]) for label, x in curves.items()}
                plot(options.picture, lines, "time [s]", "place of the cube [m]")


if __name__ == "__main__":
    main()
