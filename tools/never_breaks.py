"""Step random robots that are held by more than can be held, in single precision: count what is no finite number.

    python tools/never_breaks.py [--count 10000] [--seed 0] [--workers 2]

Joints of all kinds, random loops, contradictory equalities, absurd limits and masses; 200 steps from six states each,
without work, and sixty single steps from wild states. A robot that breaks is printed with its seed.
"""

from __future__ import annotations

import argparse
import sys
import time

from kit.never_breaks import GROWTH, Outcome, outcomes


def main(arguments: argparse.Namespace) -> int:
    start, done, failures, largest = time.monotonic(), 0, [], 0.0
    for found in outcomes(range(arguments.seed, arguments.seed + arguments.count), arguments.workers):
        done += found.n_dofs > 0
        if found.seed % 100 == 99:
            print(f"to seed {found.seed}: {len(failures)} failures", flush=True)
        largest = max(largest, found.growth)
        if not found.is_sound:
            failures.append(found)
            print(_told(found), flush=True)
    seconds = time.monotonic() - start
    print(
        f"{done} robots in {seconds:.0f} s: {sum(bool(f.broken or f.wild) for f in failures)} with numbers that are "
        f"not finite, {sum(f.growth > GROWTH for f in failures)} whose energy grows; at most {largest:.3g} times"
    )
    return 1 if failures else 0


def _told(found: Outcome) -> str:
    return (
        f"seed {found.seed}, {found.n_dofs} degrees of freedom: not finite from states {list(found.broken)}, "
        f"{found.wild} wild steps; energy times {found.growth:.3g}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    sys.exit(main(parser.parse_args()))
