"""Step random scenes of things that touch for 200 steps: count what is no finite number, and energy from nowhere.

    python tools/fuzz_scenes.py [--scenes 10000] [--seeds 0:40] [--per-seed 250] [--workers 2] [--precision single]

A seed is a structure (balls, heaps, towers, robots, chains, terrain, hollows), a kind of cone and 250 scenes that
differ in sizes, friction, hardness, gravity, places and speeds; one program serves them. `--seeds 12:20` runs those
seeds alone: to go on after an interruption, or to look at one again. Needs NumPy, MuJoCo and LLVM, and no network.
"""

from __future__ import annotations

import argparse
import sys
import time

from kit.scene_fuzz import GROWTH, HULLS, Tumbled, outcomes

BAR = 30


def main(arguments: argparse.Namespace) -> int:
    first, last = _range(arguments)
    print(f"seeds {first}:{last}, {arguments.per_seed} scenes each, {arguments.precision} precision", flush=True)
    if not HULLS:
        print("SciPy is not installed: no hollows, and heaps without a mesh", flush=True)
    start, done = time.monotonic(), []
    for found in outcomes(range(first, last), arguments.per_seed, arguments.workers, arguments.precision):
        done.append(found)
        if not found.is_sound:
            _clear()
            print(_told(found), flush=True)
        _show(len(done), last - first, time.monotonic() - start)
    _clear()
    print(_summary(done, time.monotonic() - start), flush=True)
    return 0 if all(f.is_sound for f in done) else 1


def _range(arguments: argparse.Namespace) -> tuple[int, int]:
    if arguments.seeds:
        first, _, last = arguments.seeds.partition(":")
        return int(first), int(last or int(first) + 1)
    return 0, -(-arguments.scenes // arguments.per_seed)


def _show(done: int, total: int, seconds: float) -> None:
    """A bar on a terminal; else a line now and then."""
    if sys.stdout.isatty():
        filled = BAR * done // total
        left = seconds / done * (total - done)
        print(f"\r[{'#' * filled}{'.' * (BAR - filled)}] {done}/{total} seeds, {left:.0f} s to go ", end="", flush=True)
    elif done % 10 == 0:
        print(f"{done} of {total} seeds in {seconds:.0f} s", flush=True)


def _clear() -> None:
    if sys.stdout.isatty():
        print("\r" + " " * 70 + "\r", end="")


def _told(found: Tumbled) -> str:
    return (
        f"seed {found.seed} ({found.structure}, {found.cone}): not finite {list(found.broken)}; energy grew by more "
        f"than {GROWTH:g} in {list(found.growing)}, at most {found.growth:.3g}"
    )


def _summary(done: list[Tumbled], seconds: float) -> str:
    scenes = sum(f.n_scenes for f in done)
    worst = max(done, key=lambda f: f.growth, default=None)
    lines = [
        f"{scenes:,} scenes in {seconds:.0f} s: {sum(len(f.broken) for f in done)} not finite, energy from nowhere in "
        f"{sum(len(f.growing) for f in done)}, lost contacts in {sum(f.lost for f in done)}"
    ]
    if worst is not None:
        lines.append(
            f"energy grew at most by {worst.growth:.2g} of what there was (seed {worst.seed}, {worst.structure})"
        )
    lines += [f"  {name}: most contacts at once {most}" for name, most in sorted(_most(done).items())]
    return "\n".join(lines)


def _most(done: list[Tumbled]) -> dict[str, int]:
    found: dict[str, int] = {}
    for outcome in done:
        found[outcome.structure] = max(outcome.contacts, found.get(outcome.structure, 0))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=10_000)
    parser.add_argument("--seeds", default="", metavar="FIRST:LAST", help="these seeds, the last one excluded")
    parser.add_argument("--per-seed", type=int, default=250)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--precision", default="single", choices=("single", "double"))
    sys.exit(main(parser.parse_args()))
