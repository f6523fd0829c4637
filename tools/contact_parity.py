"""Compare contacts, rows and accelerations of every MJCF robot on a floor with MuJoCo C.

    python tools/contact_parity.py [--run 50] [--poses 300] [--steps 500] [--workers 2] [--no-table] [FILE ...]

States of a wild run of random commands, and random poses near the floor; both sides are solved to the end. Where all
that touches is of kinds that both sides have formulas for, contacts are to be the same, and accelerations within 1e-9
in 95 % and 1e-6 in 99.5 % of all states. The table goes to docs/contact-accuracy.md, between its marks. Ends with 1
where that is missed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from documents import ROOT, replace_section

from kinema.core import KinemaError
from kit.assets import EXAMPLES, all_assets, asset_id
from kit.contact_parity import TouchParity, touch_parity

TABLE = ROOT / "docs" / "contact-accuracy.md"
MARKS = ("<!-- parity -->", "<!-- end of parity -->")
FRAGMENTS = {"talos.xml"}
"""Files that are only meant to be included."""
HEAD = (
    "| robot | states, by formulas | contacts | other number | position, frame, depth | J, D, aref | force | "
    "other rows | qacc within 1e-9, 1e-6 | single: median, within 1e-3 | by search: deepest the same, less, more | "
    "steps (MuJoCo perturbed) |",
    "|---" * 12 + "|",
)
OFTEN, MOSTLY = 95.0, 99.5
"""Of states with formulas, those that are within 1e-9 and 1e-6 [%]."""


def main(arguments: argparse.Namespace) -> int:
    work = partial(_compared, run=arguments.run, poses=arguments.poses, steps=arguments.steps)
    lines: list[str] = list(HEAD)
    every, wrong = [], 0
    print("\n".join(HEAD))
    with ProcessPoolExecutor(arguments.workers, multiprocessing.get_context("spawn")) as pool:
        for file, found in zip(arguments.files, pool.map(work, arguments.files), strict=True):
            if isinstance(found, str):
                print(f"{asset_id(file)}: left out: {found}", flush=True)
                continue
            every.append(found)
            wrong += found.other_counts + found.other_rows
            lines.append(_line(file, found))
            print(lines[-1], flush=True)
            if found.odd:
                print(f"  states that differ: {found.odd[:20]}", flush=True)
    lines += _together(every)
    print("\n".join(lines[-len(_together(every)) :]))
    if arguments.table:
        replace_section(TABLE, MARKS, lines)
    qacc = [error for found in every for error in found.qacc]
    good = _share(qacc, 1e-9) >= OFTEN and _share(qacc, 1e-6) >= MOSTLY
    return 0 if good and not wrong else 1


def _compared(file: Path, run: int, poses: int, steps: int) -> TouchParity | str:
    try:
        return touch_parity(file, run, poses, steps)
    except (KinemaError, ModuleNotFoundError) as error:  # hulls of meshes take SciPy
        return str(error)


def _share(errors: list[float], within: float) -> float:
    return 100.0 * float(np.mean(np.array(errors) <= within)) if errors else 100.0


def _line(file: Path, found: TouchParity) -> str:
    errors = found.contact_errors
    where, law = (
        max(errors.get(name, 0.0) for name in names) for names in (("position", "frame", "depth"), ("J", "D", "aref"))
    )
    rows = max(found.row_errors.values(), default=0.0)
    depths = found.depths
    single = f"{np.median(found.single):.0e}, {found.share(found.single, 1e-3):.1f} %" if found.single else "–"
    searched = f"{depths['same']}, {depths['less']}, {depths['deeper']}" if depths else "–"
    if depths["ours only"] or depths["theirs only"]:
        searched += f" (one side only: {depths['ours only']} ours, {depths['theirs only']} MuJoCo's)"
    return (
        f"| {asset_id(file)} | {found.n_states}, {found.n_analytic} | {found.n_contacts} | {found.other_counts} | "
        f"{where:.0e} | {law:.0e} | {errors.get('force', 0.0):.0e} | {rows:.0e} | {found.share(found.qacc, 1e-9):.1f}, "
        f"{found.share(found.qacc, 1e-6):.1f} % | {single} | {searched} | {found.survived} ({found.horizon}) |"
    )


def _together(every: list[TouchParity]) -> list[str]:
    qacc = [error for found in every for error in found.qacc]
    single = [error for found in every for error in found.single]
    if not qacc:
        return []
    return [
        f"\nAll {len(qacc):,} states by formulas: other number of contacts in {sum(f.other_counts for f in every)}, "
        f"of rows in {sum(f.other_rows for f in every)}; accelerations within 1e-9 in {_share(qacc, 1e-9):.2f} %, "
        f"within 1e-6 in {_share(qacc, 1e-6):.2f} %; single precision: median {np.median(single):.0e}, within 1e-3 in "
        f"{_share(single, 1e-3):.2f} %."
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    robots = [EXAMPLES / "quadruped" / "quadruped.xml", *all_assets("mjcf/**/*.xml")]
    parser.add_argument("files", nargs="*", type=Path, default=[f for f in robots if f.name not in FRAGMENTS])
    parser.add_argument("--run", type=int, default=50)
    parser.add_argument("--poses", type=int, default=300)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--no-table", dest="table", action="store_false")
    sys.exit(main(parser.parse_args()))
