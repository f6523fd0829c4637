"""Fields by the interpreter."""

from __future__ import annotations

from kinema.core import Array
from kinema.dynamics import Settings
from kinema.ir import interpret
from kinema.model import Model

from .arrays_for_tests import fields_program


def fields(model: Model, settings: Settings, arrays: dict[str, Array], *groups: str) -> dict[str, Array]:
    """Fields of some groups, which share no names."""
    found = interpret(fields_program(model, settings, *groups), arrays)
    return {name.split(".")[1]: values for name, values in found.items()}
