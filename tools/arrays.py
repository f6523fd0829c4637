"""Write the tables of docs/arrays.md from the declarations of the arrays.

python tools/arrays.py
"""

from __future__ import annotations

from documents import ROOT, replace_section

from kinema.scene.rigid_solver import array_tables

MARKS = ("<!-- arrays -->", "<!-- end of arrays -->")

if __name__ == "__main__":
    replace_section(ROOT / "docs" / "arrays.md", MARKS, ["", *array_tables()])
