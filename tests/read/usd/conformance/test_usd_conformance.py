"""Every property of the UsdPhysics schema: authored, left at its fallback, and in other units."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance_case import Case, agrees, read_sample
from conformance_cases import CASES
from conformance_table import TABLE_FILE, table
from schema_registry import schema_properties

from support import ClaimedDiagnostics

SAMPLES = [(case, name) for case in CASES for name in case.samples()]


@pytest.mark.parametrize(("case", "name"), SAMPLES, ids=[f"{c.schema}.{c.name}-{n}" for c, n in SAMPLES])
def test_property(case: Case, name: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The description holds the value in SI."""
    sample = case.samples()[name]
    value = read_sample(case, sample, tmp_path, diagnostics)
    for code in sample.claims:
        diagnostics.claim(code)
    assert agrees(value, sample.expected), f"{value} instead of {sample.expected}"
