"""Run robots that thrash about for millions of steps, and count what breaks.

    python tools/soak.py [--env-steps 10000000] [--envs 1000] [--device cpu] [--only go2,cube]

A go2, a humanoid, a Cassie and a hand with a cube, from the shared robots, with new random commands at every step; all
environments start again after a thousand steps. Nothing may be other than a finite number. Joints may be beyond their
limits, and contacts as deep, as in MuJoCo C under such commands (twice that, and 0.05 rad or 5 mm). Memory may not
grow.
"""

from __future__ import annotations

import argparse
import sys

from kinema.apps.bench.contact import Place, load_touching
from kit.assets import SHARED_ASSETS
from kit.soak import soak

FALL, IN_HAND = 0.8, 0.1
"""Time of random commands before the states that all start from; a hand throws its cube out soon [s]."""
SCENES = {
    "go2": (Place.FLOOR, "unitree_go2/go2_scene.xml"),
    "humanoid": (Place.FLOOR, "mujoco_humanoid/humanoid.xml"),
    "cassie": (Place.FLOOR, "agility_cassie/cassie.xml"),
    "cube": (Place.CUBE, "wonik_allegro/right_hand.xml"),
}


def main(arguments: argparse.Namespace) -> int:
    names = arguments.only.split(",") if arguments.only else list(SCENES)
    faulty = 0
    for name in names:
        place, file = SCENES[name]
        case = load_touching(place, SHARED_ASSETS / "mjcf" / file, IN_HAND if place is Place.CUBE else FALL)
        found = soak(case, arguments.envs, arguments.env_steps // len(names), arguments.device)
        rate = found.env_steps / max(found.seconds, 1e-9)
        print(
            f"{found.name}: {found.env_steps:,} env-steps, {rate / 1e3:,.1f} thousand a second; {found.broken} broken, "
            f"{found.overflows} overflows; beyond limits {found.ours.beyond_limits:.3f} (MuJoCo "
            f"{found.theirs.beyond_limits:.3f}), deepest contact {1e3 * found.ours.depth:.1f} mm (MuJoCo "
            f"{1e3 * found.theirs.depth:.1f} mm), memory {found.growth:+.1f} MiB"
            + "".join(f"\n  WRONG: {fault}" for fault in found.faults),
            flush=True,
        )
        faulty += bool(found.faults)
    return 1 if faulty else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-steps", type=int, default=10_000_000)
    parser.add_argument("--envs", type=int, default=1_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"some of {', '.join(SCENES)}")
    sys.exit(main(parser.parse_args()))
