"""Lets the tests here use the random designs of the CAD reader's tests and the judges of the writers'."""

from __future__ import annotations

import sys

from support import ROOT

for folder in ("read/cad", "write/urdf", "write/sdf"):
    sys.path.append(str(ROOT / "tests" / folder))
