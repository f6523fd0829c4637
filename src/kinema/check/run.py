"""The verb: all rules over a robot or a world."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kinema.description import Robot, World
from kinema.foundation import Diagnostic, Origin, Severity

from . import (
    actuation,
    articulation,
    axes,
    frames,
    graph,
    inertia,
    limits,
    meshes,
    mimic,
    names,
    numbers,
    overlap,
    references,
    shapes,
    structure,
    units,
)
from .context import Context
from .known_names import known_names
from .rule import Rule, rules_of
from .solids import Solids
from .words import label

_TOPICS = (
    *(structure, numbers, graph, references, names, axes, limits, mimic, frames, inertia),
    *(shapes, meshes, units, actuation, overlap, articulation),
)
"""The order in which rules are tried and findings listed."""

RULES: tuple[Rule, ...] = rules_of(_TOPICS)
"""All rules, in order."""


def check(described: Robot | World) -> list[Diagnostic]:
    """Look for everything that is wrong or suspicious in a description.

    Args:
        described: a robot, or a world, whose robots are checked one by one and then together.

    Returns:
        Diagnostics, each with the code of its rule, what is wrong, how to repair it, and where. Errors are what makes a
        description unusable, warnings what is probably a mistake, notes what is worth knowing. Empty for a clean one.
    """
    contexts = _contexts(described)
    with np.errstate(all="ignore"):  # strange numbers are what is looked for
        structural = [d for rule in rules_of([structure]) for d in _apply(rule, contexts)]
        return structural or [d for rule in RULES for d in _apply(rule, contexts)]


def _contexts(described: Robot | World) -> list[Context]:
    """The robots of a world, then the world; or the one robot."""
    solids, names = Solids(), known_names(described)
    if isinstance(described, Robot):
        return [Context(described, solids, names)]
    robots = [Context(robot, solids, names, world=described) for robot in described.robots]
    return [*robots, Context(described, solids, names, robots=robots)]


def _apply(rule: Rule, contexts: list[Context]) -> Iterable[Diagnostic]:
    several = sum(c.robot is not None for c in contexts) > 1
    for context in contexts:
        robot = label(context.robot) if several and context.robot is not None else ""
        try:
            for finding in rule.function(context):
                origin = finding.origin if str(finding.origin) else _default_origin(context)
                severity = finding.severity or rule.severity
                is_named = not robot or finding.message.startswith(robot)
                message = finding.message if is_named else f"{robot}: {finding.message}"
                yield Diagnostic(severity, rule.code, message, finding.hint, origin)
        except Exception as error:
            message = f"{robot}{': ' if robot else ''}the rule {rule.code} failed: {type(error).__name__}: {error}"
            hint = "this is a defect of Kinema, not of the robot: please report it"
            yield Diagnostic(Severity.WARNING, "check.failed", message, hint, _default_origin(context))


def _default_origin(context: Context) -> Origin:
    """The file, for elements that do not know their own place."""
    assembly = context.assembly
    return assembly.origin if str(assembly.origin) else Origin(file=assembly.source)
