"""What one case of the conformance suite is, and how it is put on a stage and read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Diagnostics
from kinema.description import Joint, Link, Robot, Shape, World, colliding_pairs
from kinema.read.usd import read_usd

from ..usd_stages import OTHER, SI, write_stage


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
        """The pairs of shapes that may collide, as `a-b` in alphabetical order; `a` for `a_shape`."""
        names = [[x.shape.name.removesuffix("_shape") for x in pair] for pair in colliding_pairs(self.described)]
        return {"-".join(sorted(pair)) for pair in names}


def read_text(text: str, folder: Path, diagnostics: Diagnostics, units: str = SI) -> Description:
    """Write a stage and read it."""
    file = write_stage(folder, text, units=units)
    return Description(read_usd(file, diagnostics=diagnostics))


def read_sample(case: Case, sample: Sample, folder: Path, diagnostics: Diagnostics) -> Any:
    """Read the sample's stage, and give back the value that the case looks at."""
    text = (sample.stage or case.stage).replace("HERE", sample.text)
    return case.read(read_text(text, folder, diagnostics, sample.units))


def agrees(value: Any, expected: Any) -> bool:
    """Whether two values are the same; numbers to single precision, which is what the schema's attributes have."""
    if isinstance(expected, dict):
        return value.keys() == expected.keys() and all(agrees(value[k], expected[k]) for k in expected)
    if isinstance(expected, tuple):
        return len(value) == len(expected) and all(map(agrees, value, expected))
    if isinstance(expected, float | int | np.ndarray) and not isinstance(expected, bool):
        return value is not None and bool(np.allclose(value, expected, rtol=2e-7, atol=1e-12))
    return bool(value == expected)
