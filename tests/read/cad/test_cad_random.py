"""Random assemblies: every part is where it should be, in the assembly and along each joint."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings, strategies as st

from kinema.check import check
from kinema.core import Diagnostics, Severity
from kit.cad.addin import assembly_state, exported_robot
from kit.cad.assembly_checks import assert_as_in_design, moved_along_each_joint
from kit.cad.fake_fusion import FakeDesign
from kit.cad.random_designs import designs


@settings(max_examples=40)
@given(designs(), st.data())
def test_random_assemblies(design: FakeDesign, data: st.DataObject) -> None:
    """At the assembly pose, and along each joint in turn, every part is where the design has it to 1e-9 m."""
    diagnostics = Diagnostics()
    with tempfile.TemporaryDirectory() as folder:
        robot = exported_robot(design, Path(folder), diagnostics)
        assert [d for d in diagnostics if d.severity is not Severity.NOTE] == []
        assert_as_in_design(robot, design, assembly_state(robot))
        assert [str(d) for d in check(robot) if d.severity is Severity.ERROR] == []
    for configuration in moved_along_each_joint(robot, design, data):
        assert_as_in_design(robot, design, configuration)
