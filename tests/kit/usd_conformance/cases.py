"""All cases, in the order of the schema's classes."""

from __future__ import annotations

from . import bodies, joints, shapes
from .case import Case

CASES: list[Case] = [*bodies.CASES, *shapes.CASES, *joints.CASES]
