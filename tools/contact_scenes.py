"""Run scenes of things that touch, and hold what is measured of them against bounds.

    python tools/contact_scenes.py [--only tower,wall] [--workers 2] [--no-table]

The table goes to docs/contact-accuracy.md, between its marks, where all scenes were run. Ends with 1 where a bound is
missed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from documents import ROOT, replace_section

from kit.contact_scenes import SCENES, Measured

TABLE = ROOT / "docs" / "contact-accuracy.md"
MARKS = ("<!-- scenes -->", "<!-- end of scenes -->")
HEAD = ("| | scene | | measured | bound | |", "|---|---|---|---|---|---|")


def main(arguments: argparse.Namespace) -> int:
    chosen = arguments.only.split(",") if arguments.only else list(SCENES)
    unknown = sorted(set(chosen) - set(SCENES))
    if unknown:
        print(f"no scene is called {unknown[0]!r}; there are: {', '.join(SCENES)}", file=sys.stderr)
        return 2
    work = [(name, precision) for name in chosen for precision in SCENES[name].precisions]
    lines, missed = list(HEAD), 0
    print("\n".join(HEAD))
    with ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn")) as pool:
        for (name, precision), found in zip(work, pool.map(_run, work), strict=True):
            missed += sum(not x.ok for x in found)
            lines += [_line(name, precision, x) for x in found]
            print("\n".join(lines[len(lines) - len(found) :]), flush=True)
    print(f"{len(lines) - len(HEAD)} bounds, {missed} missed")
    if arguments.table and not arguments.only:
        replace_section(TABLE, MARKS, lines)
    return 1 if missed else 0


def _run(work: tuple[str, str]) -> list[Measured]:
    name, precision = work
    return SCENES[name].run(precision)


def _line(name: str, precision: str, found: Measured) -> str:
    bound = f"{'≥' if found.at_least else '≤'} {found.bound:.3g} {found.unit}".strip()
    case = f"{SCENES[name].group} | {name}, {precision}"
    return f"| {case} | {found.what} | {found.found:.2g} | {bound} | {'yes' if found.ok else 'MISSED'} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME,...", help="some of them")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--no-table", dest="table", action="store_false")
    sys.exit(main(parser.parse_args()))
