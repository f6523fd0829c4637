"""All cases, in the order of the schema's classes."""

from __future__ import annotations

import cases_bodies
import cases_joints
import cases_shapes
from conformance_case import Case

CASES: list[Case] = [*cases_bodies.CASES, *cases_shapes.CASES, *cases_joints.CASES]
