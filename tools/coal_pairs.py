"""Compare distances, normals and nearest points of random pairs of all kinds of shapes with those of coal.

    python -m tools.coal_pairs [--count 1000000] [--seed 0] [--only box-mesh]

A third of the poses are degenerate: parallel, concentric, just touching, or nearly so. Fails where ours is farther from
the truth than a micrometre, of shapes that are about as large as a metre, more often than once in a thousand.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.dynamics.collision.coal_side import KINDS, all_poses, compared

OFTEN = 1e-3


def main(arguments: argparse.Namespace) -> int:
    start, total, off = time.monotonic(), 0, 0
    chosen = [k for k in KINDS if arguments.only in ("", "-".join(k))]
    heads = ("poses", "same", "ours off", "apart", "worst", "coal off", "turned", "surface")
    print(f"{'pair':22}" + "".join(f"{head:>10}" for head in heads))
    for kinds in chosen:
        poses = all_poses(1000 * arguments.seed + KINDS.index(kinds), arguments.count // len(chosen))
        found = compared(kinds, poses)
        total, off = total + found.count, off + len(found.off)
        counts = (found.count, found.same, len(found.off), found.off_apart)
        numbers = (f"{found.worst:.1e}", found.theirs_off, found.turned, f"{found.beside_surface:.1e}")
        print(f"{'-'.join(kinds):22}" + "".join(f"{x:>10}" for x in (*counts, *numbers)), flush=True)
    print(f"{total} pairs in {time.monotonic() - start:.0f} s: ours off in {off}")
    return 1 if off > OFTEN * total else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="one pair of kinds, such as box-mesh")
    sys.exit(main(parser.parse_args()))
