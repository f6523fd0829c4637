"""Some damaged files on every run; `make fuzz` does thousands."""

from __future__ import annotations

import pytest

from kit.assets import EXAMPLES
from kit.choosing import representatives
from kit.fuzz import Case, run


@pytest.mark.parametrize("n_cases", representatives([30, 150], 1))
def test_damaged_files_give_clear_errors_only(n_cases: int) -> None:
    files = [EXAMPLES / name for name in ("arm/arm.urdf", "quadruped/quadruped.xml", "gripper/gripper.sdf")]
    failures, _ = run([Case(files[i % len(files)], 10_000 + i) for i in range(n_cases)], n_workers=1)
    assert not failures, "\n".join(f"{c.file.name} seed {c.seed}: {reason}" for c, reason in failures)
