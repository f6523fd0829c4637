"""`check`: applies all rules to a robot or a world."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kinema.core import Diagnostic, Origin, Severity
from kinema.description import Robot, World

# imported for registration of their rules
from . import (  # noqa: F401
    actuation,
    frames,
    inertia,
    joints,
    names,
    overlap,
    shapes,
    topology,
    units,
    values,
)
from .context import CheckContext, collect_known_names
from .hulls import HullCache
from .messages import label
from .rule import Rule, rules_in_topics

_RULE_TOPICS = (
    *("structure", "numbers", "graph", "references", "names", "axes", "limits", "mimic", "frames", "inertia"),
    *("shapes", "meshes", "units", "actuation", "overlap", "articulation"),
)
"""Topics (first part of a rule's code) in the order in which rules are applied and findings listed."""

RULES: tuple[Rule, ...] = rules_in_topics(_RULE_TOPICS)
"""All rules, in order."""


def check(description: Robot | World) -> list[Diagnostic]:
    """Check a description for errors and suspicious values.

    Args:
        description: a robot, or a world, whose robots are checked one by one and then together.

    Returns:
        Diagnostics, each with the code of its rule, message, hint and origin. Errors make a description unusable,
        warnings are probable mistakes, notes are informative. Empty for a clean description.
    """
    contexts = _build_contexts(description)
    with np.errstate(all="ignore"):  # invalid numbers are expected
        structural = [d for rule in rules_in_topics(["structure"]) for d in _apply_rule(rule, contexts)]
        return structural or [d for rule in RULES for d in _apply_rule(rule, contexts)]


def _build_contexts(description: Robot | World) -> list[CheckContext]:
    """Contexts of the robots of a world, then of the world; or of a single robot."""
    hulls, known_names = HullCache(), collect_known_names(description)
    if isinstance(description, Robot):
        return [CheckContext(description, hulls, known_names)]
    robots = [CheckContext(robot, hulls, known_names, world=description) for robot in description.robots]
    return [*robots, CheckContext(description, hulls, known_names, robot_contexts=robots)]


def _apply_rule(rule: Rule, contexts: list[CheckContext]) -> Iterable[Diagnostic]:
    """Diagnostics of a rule in all contexts; an exception of the rule becomes the diagnostic `check.failed`."""
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


def _default_origin(context: CheckContext) -> Origin:
    """Origin of the file, for elements without an origin."""
    assembly = context.assembly
    return assembly.origin if str(assembly.origin) else Origin(file=assembly.source)
