"""Fields by the interpreter."""

from __future__ import annotations

from kinema.foundation import Array
from kinema.model import Model
from kinema.sim import Settings
from kinema.sim.field_programs import GROUPS
from kinema.sim.inputs import Inputs
from kinema.trace import Tape, finish, interpret


def fields(model: Model, settings: Settings, arrays: dict[str, Array], *groups: str) -> dict[str, Array]:
    """Fields of some groups."""
    tape = Tape()
    inputs = Inputs(model, settings, tape.input)
    outputs = {name: values for group in groups for name, values in GROUPS[group](inputs).items()}
    return interpret(finish(tape, outputs), arrays)
