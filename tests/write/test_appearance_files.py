"""Files that say all that their formats can say of how a robot looks, through every format and back."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinema
from kinema.core import collect
from kinema.write import FORMATS
from kit.dressed_files import FILES
from kit.seen import differences, seen, unexplained


@pytest.mark.parametrize("name", FILES)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    """The same is seen, or the reports say what is not."""
    own, make = FILES[name]
    (tmp_path / "source").mkdir()
    described = kinema.read(make(tmp_path / "source"), policy=collect)
    before = seen(described)
    assert before
    for target in FORMATS:
        robot, reports = described, []
        for number, format in enumerate((target, own)):
            file = tmp_path / target / str(number) / f"r{FORMATS[format][0]}"
            file.parent.mkdir(parents=True)
            reports.append(kinema.write(robot, file))
            robot = kinema.read(file, policy=collect)
        assert unexplained(differences(before, seen(robot)), *reports) == set(), target
        if target == own:
            assert differences(before, seen(robot)) <= {"double_sided", "wrap"}, target
