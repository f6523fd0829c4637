"""Read every case of the USD conformance suite, and write the table docs/usd-conformance.md.

python tools/usd_conformance.py
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "read" / "usd" / "conformance")]
    conformance = importlib.import_module("conformance_table")
    text = conformance.table()
    conformance.TABLE_FILE.parent.mkdir(exist_ok=True)
    conformance.TABLE_FILE.write_text(text)
    print(next(line for line in text.splitlines() if line.startswith("**")))


if __name__ == "__main__":
    main()
