"""Compare limits, friction, equalities and their forces with MuJoCo C, on every MJCF robot there is.

    python tools/constraint_parity.py [--states 50] [--steps 200] [--no-table] [FILE ...]

Contacts are off. The table goes to docs/constraints.md, between its marks.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from documents import ROOT, replace_section

from kit.assets import EXAMPLES, all_assets, asset_id
from kit.constraint_parity import Parity, parity

TABLE = ROOT / "docs" / "constraints.md"
MARKS = ("<!-- parity -->", "<!-- end of parity -->")
FRAGMENTS = {"talos.xml"}
"""Files that are only meant to be included."""
COLUMNS = {"jac": "jac", "efc_D": "D", "efc_aref": "aref", "efc_force": "force", "qacc": "qacc"}
COLUMNS |= {"step": "one step", "run": "200 steps", "single": "single, median"}


def main(arguments: argparse.Namespace) -> int:
    lines = [
        f"| robot | degrees of freedom | rows | {' | '.join(COLUMNS.values())} |",
        "|---" * (3 + len(COLUMNS)) + "|",
    ]
    for file in arguments.files:
        found = parity(file, arguments.states, arguments.steps)
        if found is not None:
            lines.append(_line(file, found))
            print(lines[-1], flush=True)
    if arguments.table:
        replace_section(TABLE, MARKS, lines)
    return 0


def _line(file: Path, found: Parity) -> str:
    errors = " | ".join(f"{found.errors[name]:.0e}" for name in COLUMNS)
    return f"| {asset_id(file)} | {found.n_dofs} | {found.n_rows} | {errors} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    robots = [EXAMPLES / "quadruped" / "quadruped.xml", *all_assets("mjcf/**/*.xml")]
    parser.add_argument("files", nargs="*", type=Path, default=[f for f in robots if f.name not in FRAGMENTS])
    parser.add_argument("--states", type=int, default=50)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--no-table", dest="table", action="store_false")
    sys.exit(main(parser.parse_args()))
