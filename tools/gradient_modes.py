"""Compare forward with reverse mode of differentiation for steps of random robots and scenes (dot-product test).

    python tools/gradient_modes.py [--count 10000] [--seed 0] [--workers 2]

Robots with joints of all kinds, loops, limits, tendons and dry friction, and scenes of bodies that touch; fifty of each
structure, which differ by masses, limits, friction, softness and sizes, share a program. For random v and w,
w.(J v) by forward mode has to equal (J^T w).v by reverse mode to 1e-12 of |w|.(|J| |v|) for 99.5 % of the models, and
to 1e-9 for 99.9 %: Hessians of robots with absurd masses and softness are ill-conditioned. Ends with 1 where not.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from kit.gradient_modes import mode_differences
from kit.never_breaks import N_VARIANTS

BOUND = 1e-12
REQUIRED_SHARES = {1e-12: 0.995, 1e-9: 0.999}


def main(arguments: argparse.Namespace) -> int:
    n_structures = -(-arguments.count // N_VARIANTS)
    errors: list[float] = []
    begin = time.monotonic()
    for i, found in enumerate(
        mode_differences(range(arguments.seed, arguments.seed + n_structures), arguments.workers)
    ):
        errors += found.errors
        worst = max(found.errors, default=0.0)
        if not worst <= BOUND:
            print(f"seed {found.seed} ({found.name}, {found.n_dofs} dofs): {worst:.1e}", flush=True)
        if i % 20 == 19:
            print(f"{len(errors):,} models in {time.monotonic() - begin:.0f} s", flush=True)
    values = np.array(errors)
    n_off = int((~(values <= BOUND)).sum())
    print(
        f"{len(values):,} models: median {np.median(values):.1e}, largest {values.max():.1e}, {n_off} above {BOUND:.0e}"
    )
    return 0 if all((values <= bound).mean() >= share for bound, share in REQUIRED_SHARES.items()) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    sys.exit(main(parser.parse_args()))
