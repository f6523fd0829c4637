"""Run robots that thrash about for millions of steps, and count what breaks.

    python tools/soak.py [--env-steps 10000000] [--envs 1000] [--device cpu] [--workers 4] [--only go2,cube]

A go2, a humanoid, a Cassie and a hand with a cube, from the shared robots, with new random commands at every step; all
environments start again after a thousand steps. Nothing may be other than a finite number. Joints may be beyond their
limits, and contacts as deep, as in MuJoCo C under such commands (twice that, and 0.05 rad or 5 mm). Memory may not
grow.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from kinema.apps.bench import ContactScene, load_case
from kit.assets import SHARED_ASSETS
from kit.soak import Progress, Soaked, soak

BAR = 30
FALL, IN_HAND = 0.8, 0.1
"""Time of random commands before the states that all start from; a hand throws its cube out soon [s]."""
SCENES = {
    "go2": (ContactScene.FLOOR, "unitree_go2/go2_scene.xml"),
    "humanoid": (ContactScene.FLOOR, "mujoco_humanoid/humanoid.xml"),
    "cassie": (ContactScene.FLOOR, "agility_cassie/cassie.xml"),
    "cube": (ContactScene.CUBE, "wonik_allegro/right_hand.xml"),
}


def main(arguments: argparse.Namespace) -> int:
    names = arguments.only.split(",") if arguments.only else list(SCENES)
    unknown = sorted(set(names) - set(SCENES))
    if unknown:
        print(f"no scene is called {unknown[0]!r}; there are: {', '.join(SCENES)}", file=sys.stderr)
        return 2
    one = partial(_soaked, envs=arguments.envs, env_steps=arguments.env_steps // len(names), device=arguments.device)
    faulty, total = 0, 0
    for found in _outcomes(one, names, arguments.workers):
        _clear()
        print(_told(found), flush=True)
        faulty, total = faulty + bool(found.faults), total + found.env_steps
    print(f"{total:,} env-steps: {'nothing is wrong' if not faulty else f'{faulty} of {len(names)} scenes are faulty'}")
    return 1 if faulty else 0


def _outcomes(one: partial[Soaked], names: list[str], workers: int) -> Iterator[Soaked]:
    """In this process, with a bar; or in some beside it, each with a scene of its own."""
    if workers == 1:
        yield from (one(name, progress=_show) for name in names)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(one, names)


def _soaked(name: str, *, envs: int, env_steps: int, device: str, progress: Progress = lambda *_: None) -> Soaked:
    place, file = SCENES[name]
    warmup_time = IN_HAND if place is ContactScene.CUBE else FALL
    case = load_case(SHARED_ASSETS / "mjcf" / file, place, warmup_time=warmup_time)
    return soak(case, envs, env_steps, device, progress)


def _told(found: Soaked) -> str:
    rate = found.env_steps / max(found.seconds, 1e-9)
    return (
        f"{found.name}: {found.env_steps:,} env-steps, {rate / 1e3:,.1f} thousand a second; {found.broken} broken, "
        f"{found.overflows} overflows; beyond limits {found.ours.beyond_limits:.3f} (MuJoCo "
        f"{found.theirs.beyond_limits:.3f}), deepest contact {1e3 * found.ours.depth:.1f} mm (MuJoCo "
        f"{1e3 * found.theirs.depth:.1f} mm), memory {found.growth:+.1f} MiB"
        + "".join(f"\n  WRONG: {fault}" for fault in found.faults)
    )


def _show(found: Soaked, share: float) -> None:
    """A bar on a terminal."""
    if sys.stdout.isatty():
        filled = int(BAR * share)
        bar = f"[{'#' * filled}{'.' * (BAR - filled)}]"
        print(f"\r{bar} {found.name}: {found.env_steps:,} env-steps, {found.broken} broken ", end="", flush=True)


def _clear() -> None:
    if sys.stdout.isatty():
        print("\r" + " " * 100 + "\r", end="")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-steps", type=int, default=10_000_000)
    parser.add_argument("--envs", type=int, default=1_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with a scene of its own")
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"some of {', '.join(SCENES)}")
    sys.exit(main(parser.parse_args()))
