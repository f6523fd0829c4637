"""Step random robots that are held by more than can be held, in single precision: count what is no finite number.

    python tools/never_breaks.py [--count 10000] [--seed 0] [--workers 2] [--record FILE]

Joints of all kinds, random loops, contradictory equalities, absurd limits and masses; 200 steps from six states each,
without work, and single steps from wild states. One program serves a structure, in which fifty robots differ by all
that environments can differ in: masses, limits, dry friction, softness, and which equalities hold. Every tenth
structure is stepped once more without `calm`, where what runs away has to be flagged and held. What breaks is printed,
and a summary as JSON in the end.

Structures are independent of each other: `--seed 100 --count 5000` runs the second hundred of them. With `--record`
each is a line of that file once it is done, and is not run again. It takes NumPy, llvmlite and MuJoCo, four seconds
of one core for a structure, and nothing from a network: 10,000 robots are about a minute of 16 cores.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kit.never_breaks import GROWTH, N_STATES, N_VARIANTS, Outcome, Structure, outcomes

PLAIN_EVERY = 10
TOLD_EVERY = 10


def main(arguments: argparse.Namespace) -> int:
    n_structures = -(-arguments.count // N_VARIANTS)
    seeds = range(arguments.seed, arguments.seed + n_structures)
    wanted = [Structure(seed) for seed in seeds] + [Structure(seed, calm=False) for seed in seeds[::PLAIN_EVERY]]
    known = _recorded(arguments.record)
    done = [known[structure] for structure in wanted if structure in known]
    done += _run([structure for structure in wanted if structure not in known], arguments.workers, arguments.record)
    sound = [_summary([f for f in done if f.calm is calm], calm=calm) for calm in (True, False)]
    print(json.dumps({"calm": sound[0], "as built by default": sound[1]}, indent=2))
    return 0 if all(f.is_sound if f.calm else not f.broken for f in done) else 1


def _run(structures: Sequence[Structure], workers: int, record: Path | None) -> list[Outcome]:
    start, done = time.monotonic(), []
    for outcome in outcomes(structures, workers):
        done.append(outcome)
        if outcome.calm and not outcome.is_sound:
            print(_told(outcome), flush=True)
        if record is not None:
            with record.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(outcome)) + "\n")
        if len(done) % TOLD_EVERY == 0 or len(done) == len(structures):
            print(f"{len(done)} of {len(structures)} in {time.monotonic() - start:.0f} s", flush=True)
    return done


def _recorded(record: Path | None) -> dict[Structure, Outcome]:
    """What an earlier run has left."""
    if record is None or not record.exists():
        return {}
    found = [Outcome(**json.loads(line)) for line in record.read_text(encoding="utf-8").splitlines()]
    return {Structure(f.seed, f.calm): f for f in found}


def _summary(done: Sequence[Outcome], *, calm: bool) -> dict[str, float | list[int]]:
    moving = [f for f in done if f.n_dofs]
    result: dict[str, float | list[int]] = {
        "structures": len(moving),
        "robots": N_VARIANTS * len(moving),
        "runs of 200 steps": N_VARIANTS * N_STATES * len(moving),
        "runs that are not finite": sum(len(f.broken) for f in moving),
        "wild single steps that are not finite": sum(f.wild for f in moving),
        "runs that ran away and were held": sum(len(f.flagged) for f in moving),
        "seconds, one after another": round(sum(f.seconds for f in moving)),
    }
    if calm:
        result["structures with energy from nowhere"] = [f.seed for f in moving if f.from_nowhere > GROWTH]
        result["energy over what there was, at most"] = max((f.from_nowhere for f in moving), default=0.0)
        result["kinetic energy alone over what there was, at most"] = max((f.growth for f in moving), default=0.0)
    return result


def _told(found: Outcome) -> str:
    return (
        f"seed {found.seed}, {found.n_dofs} degrees of freedom: not finite {list(found.broken)}, run away "
        f"{list(found.flagged)}, {found.wild} wild steps; energy times {found.from_nowhere:.3g}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="robots, fifty to a structure")
    parser.add_argument("--seed", type=int, default=0, help="the first structure")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--record", type=Path, help="a file with a line of JSON for each structure that is done")
    sys.exit(main(parser.parse_args()))
