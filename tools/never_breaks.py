"""Step random robots that are held by more than can be held, in single precision: count what is no finite number.

    python tools/never_breaks.py [--count 10000] [--seed 0] [--workers 2]

Joints of all kinds, random loops, contradictory equalities, absurd limits and masses; 200 steps from six states each,
without work, and single steps from wild states. One program serves a structure, in which fifty robots differ by all
that environments can differ in: masses, limits, dry friction, softness, and which equalities hold. Every tenth
structure is stepped once more without `calm`, where what runs away has to be flagged and held. What breaks is printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable

from kit.never_breaks import GROWTH, N_VARIANTS, Outcome, outcomes

PLAIN_EVERY = 10


def main(arguments: argparse.Namespace) -> int:
    n_structures = -(-arguments.count // N_VARIANTS)
    seeds = range(arguments.seed, arguments.seed + n_structures)
    calm = _run(outcomes(seeds, arguments.workers), "calm")
    plain = _run(outcomes(seeds[::PLAIN_EVERY], arguments.workers, calm=False), "as built by default")
    return 1 if any(not f.is_sound for f in calm) or any(f.broken for f in plain) else 0


def _run(found: Iterable[Outcome], name: str) -> list[Outcome]:
    start, done = time.monotonic(), []
    for outcome in found:
        done.append(outcome)
        if not outcome.is_sound:
            print(_told(outcome), flush=True)
        if len(done) % 25 == 0:
            print(f"{name}: {_summary(done)}", flush=True)
    print(f"{name}, in {time.monotonic() - start:.0f} s: {_summary(done)}", flush=True)
    return done


def _summary(done: list[Outcome]) -> str:
    moving = [f for f in done if f.n_dofs]
    broken, flagged = (sum(len(getattr(f, name)) for f in moving) for name in ("broken", "flagged"))
    return (
        f"{len(moving)} structures, {N_VARIANTS * len(moving)} robots; not finite: {broken} runs, "
        f"{sum(f.wild for f in moving)} wild steps; run away and held: {flagged} runs; "
        f"energy from nowhere: {sum(f.from_nowhere > GROWTH for f in moving)} structures (at most "
        f"{max((f.from_nowhere for f in moving), default=0.0):.3g} times; kinetic energy alone "
        f"{max((f.growth for f in moving), default=0.0):.3g} times)"
    )


def _told(found: Outcome) -> str:
    return (
        f"seed {found.seed}, {found.n_dofs} degrees of freedom: not finite {list(found.broken)}, run away "
        f"{list(found.flagged)}, {found.wild} wild steps; energy times {found.from_nowhere:.3g}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    sys.exit(main(parser.parse_args()))
