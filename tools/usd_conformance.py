"""Read every case of the USD conformance suite, and write the table docs/usd-conformance.md.

python tools/usd_conformance.py
"""

from __future__ import annotations

from kit.usd_conformance.table import TABLE_FILE, table


def main() -> None:
    text = table()
    TABLE_FILE.parent.mkdir(exist_ok=True)
    TABLE_FILE.write_text(text)
    print(next(line for line in text.splitlines() if line.startswith("**")))


if __name__ == "__main__":
    main()
