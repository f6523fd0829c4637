"""The table docs/usd-conformance.md, made from the cases."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Diagnostics

from ..assets import ROOT
from .case import Case, Sample, agrees, read_sample
from .cases import CASES
from .schema import schema_classes, schema_properties

TABLE_FILE = ROOT / "docs" / "usd-conformance.md"
HEAD = """# USD: conformance with the UsdPhysics schema

Made by `python tools/usd_conformance.py` from the cases in `tests/kit/usd_conformance/`; do not edit.

Each row is one property of the schema. Its three samples are stages that author it in SI units with Z up, that leave
it to its fallback, and that author it in centimetres and grams with Y up. A cell shows what is written and what the
description holds, in SI with Z up: the value that the case expects, and that the reader gave when this file was made.
"""


def table() -> str:
    """The whole document; every sample is read anew."""
    properties = schema_properties()
    rows, passed = [], set()
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            cells = [_cell(case, sample, Path(folder)) for sample in case.samples().values()]
            if all(ok for _, ok in cells):
                passed.add(case.key)
            shown = " | ".join(text for text, _ in cells[:3])
            rows.append(f"| {case.schema} | {case.name} | {shown} | {case.meaning} | {len(cells)} |")
    covered = len(properties & passed)
    samples = sum(len(case.samples()) for case in CASES)
    summary = (
        f"**{covered} of {len(properties)} properties** of {len(schema_classes())} classes are read with the right"
        f" value, in {samples} samples.\n(`PhysicsFixedJoint` and `PhysicsArticulationRootAPI` have no properties of"
        " their own.)"
    )
    columns = "| class | property | authored | fallback | other units | in the description | samples |"
    return "\n".join([HEAD, summary, "", columns, "|---|---|---|---|---|---|---|", *rows, ""])


def _cell(case: Case, sample: Sample, folder: Path) -> tuple[str, bool]:
    value = read_sample(case, sample, folder, Diagnostics())
    if not agrees(value, sample.expected):
        return f"**{_text(value)} instead of {_text(sample.expected)}**", False
    written = "; ".join(f"`{_short(line)}`" for line in sample.text.strip().splitlines()) or "nothing"
    why = f" ({sample.why})" if sample.why else ""
    return f"{written}: {_text(sample.expected)}{why}", True


def _short(line: str) -> str:
    """A line of a stage without its type: `mass = 3`."""
    name, _, value = line.strip().partition(" = ")
    return f"{name.split()[-1].removeprefix('physics:')} = {value}"


def _text(value: Any) -> str:
    """An expected value, short."""
    if isinstance(value, dict):
        changed = {k: v for k, v in value.items() if not (isinstance(v, tuple) and v[:1] == ("free",))}
        return ", ".join(f"{k}: {_text(v)}" for k, v in changed.items()) or "all free"
    if isinstance(value, np.ndarray):
        return "rows " + ", ".join(_text(tuple(row)) for row in value.tolist())
    if isinstance(value, tuple):
        return "(" + ", ".join(_text(v) for v in value) + ")"
    if isinstance(value, set):
        return ", ".join(sorted(value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return f"{value:.6g}"
    return "none" if value is None else str(value)
