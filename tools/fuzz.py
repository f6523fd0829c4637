"""Feed damaged robot files to the readers, the checks and forward kinematics: no traceback, hang or runaway memory.

    python tools/fuzz.py [--count 6000] [--seed 0] [--workers 2] [FOLDER ...]

A failure is printed with its seed, and its file is kept under build/fuzz for a look.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kinema.apps.cli.batch import find_robots
from kit.fuzz import Case, run
from kit.mutation import mutate

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build" / "fuzz"


def main(arguments: argparse.Namespace) -> int:
    files = [f for folder in arguments.folders for f in find_robots(folder)]
    if not files:
        print("there are no robot files in:", *arguments.folders, file=sys.stderr)
        return 1
    cases = [Case(files[i % len(files)], arguments.seed + i) for i in range(arguments.count)]
    failures, slowest = run(cases, arguments.workers)
    for case, reason in failures:
        KEPT.mkdir(parents=True, exist_ok=True)
        kept = KEPT / f"{case.file.stem}-{case.seed}{case.file.suffix}"
        kept.write_bytes(mutate(case.file.read_bytes(), case.seed))
        print(f"FAILED {case.file} seed {case.seed}: {reason}\n  kept as {kept.relative_to(ROOT)}")
    print(f"{len(cases)} damaged files of {len(files)} robots, {len(failures)} failures, slowest {slowest:.2f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    default = [p for p in (ROOT / "examples" / "robots", ROOT.parent / "shared" / "assets") if p.is_dir()]
    parser.add_argument("folders", nargs="*", type=Path, default=default)
    sys.exit(main(parser.parse_args()))
