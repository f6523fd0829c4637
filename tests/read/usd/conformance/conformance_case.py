"""What one case of the conformance suite is, and how it is put on a stage and read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinema.description import Joint, Link, Robot, Shape, World, colliding_pairs
from kinema.foundation import Diagnostics
from kinema.read.usd import read_usd

SI = 'metersPerUnit = 1\n    kilogramsPerUnit = 1\n    upAxis = "Z"'
OTHER = 'metersPerUnit = 0.01\n    kilogramsPerUnit = 0.001\n    upAxis = "Y"'
"""Centimetres, grams, Y up: forces are in 1e-5 N, torques in 1e-7 N m, the stage's (x, y, z) is our (x, -z, y)."""


@dataclass(frozen=True)
class Sample:
    """What stands in the stage, and what the description has to hold: the value in SI, worked out by hand."""

    text: str
    expected: Any
    why: str = ""
    """How the expected value comes about, where the numbers do not show it."""
    claims: tuple[str, ...] = ()
    """Warnings and errors that reading has to report."""
    stage: str = ""
    """The stage, where it is not the case's."""
    units: str = SI


@dataclass(frozen=True)
class Case:
    """One property of one class of the schema."""

    schema: str
    name: str
    meaning: str
    """Where the description says it, and in which unit."""
    stage: str
    """The stage's text; `HERE` is replaced by the sample's."""
    read: Callable[[Description], Any]
    authored: Sample
    fallback: Sample
    other_units: Sample
    more: dict[str, Sample] = field(default_factory=dict)
    """Further samples, by name."""

    @property
    def key(self) -> tuple[str, str]:
        """Class and property."""
        return self.schema, self.name

    def samples(self) -> dict[str, Sample]:
        """Every sample by name."""
        other = replace(self.other_units, units=OTHER)
        return {"authored": self.authored, "fallback": self.fallback, "other units": other, **self.more}


class Description:
    """The description that was read, with short ways to what the cases look at."""

    def __init__(self, described: Robot | World) -> None:
        self.described = described

    def link(self, name: str = "body") -> Link:
        return next(link for link in self.described.links if link.name == name)

    def joint(self, name: str = "joint") -> Joint:
        return next(joint for joint in self.described.joints if joint.name == name)

    def shape(self, name: str = "collider") -> Shape:
        static = self.described.shapes if isinstance(self.described, World) else []
        shapes = [*static, *(s for link in self.described.links for s in link.shapes)]
        return next(s for s in shapes if s.name == name)

    def touching(self) -> set[str]:
        """The pairs of shapes that may collide, as `a b` in alphabetical order."""
        return {" ".join(sorted((a.shape.name, b.shape.name))) for a, b in colliding_pairs(self.described)}


def prim(kind_and_name: str, *lines: str, apis: Sequence[str] = ()) -> str:
    """The text of a prim."""
    head = f" (\n    prepend apiSchemas = [{', '.join(map(_quoted, apis))}]\n)" if apis else ""
    return f"def {kind_and_name}{head}\n{{\n" + "\n".join(lines) + "\n}"


def _quoted(text: str) -> str:
    return f'"{text}"'


def stage_text(case: Case, sample: Sample) -> str:
    """The whole stage of a sample."""
    return f"#usda 1.0\n(\n    {sample.units}\n)\n{(sample.stage or case.stage).replace('HERE', sample.text)}\n"


def read_sample(case: Case, sample: Sample, folder: Path, diagnostics: Diagnostics) -> Any:
    """Write the sample's stage, read it, and give back the value that the case looks at."""
    file = folder / "stage.usda"
    file.write_text(stage_text(case, sample))
    return case.read(Description(read_usd(file, diagnostics=diagnostics)))


def agrees(value: Any, expected: Any) -> bool:
    """Whether two values are the same; numbers to single precision, which is what the schema's attributes have."""
    if isinstance(expected, dict):
        return value.keys() == expected.keys() and all(agrees(value[k], expected[k]) for k in expected)
    if isinstance(expected, float | np.ndarray) or _is_numbers(expected):
        return value is not None and bool(np.allclose(value, expected, rtol=2e-7, atol=1e-12))
    return bool(value == expected)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(v, float | int | tuple) for v in value)
