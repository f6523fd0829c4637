"""What `import kinema` offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kinema as km
from kit.choosing import representatives


@pytest.mark.parametrize("name", km.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(km, name) is not None
    assert name in dir(km)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = km.nonsense  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "first", representatives(["kinema.read.urdf", "kinema.read", "kinema.check", "kinema.write"], 1)
)
def test_verbs_are_callable_whatever_is_imported_first(first: str) -> None:
    """`kinema.read` is a package and a function: importing the package must not hide the function."""
    program = f"import {first}, kinema as km; assert callable(km.read) and callable(km.check) and callable(km.write)"
    subprocess.run([sys.executable, "-c", program], check=True)
