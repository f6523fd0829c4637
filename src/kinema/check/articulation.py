"""Rules about links that are written inside each other, and about articulations (USD)."""

from __future__ import annotations

from collections.abc import Iterable

from kinema.description import Link
from kinema.foundation import Severity
from kinema.words import usd

from .context import Context
from .rule import Finding, rule
from .words import label


@rule("articulation.nesting", Severity.ERROR)
def nesting(context: Context) -> Iterable[Finding]:
    """A link of a USD stage is inside another one, and the two are not of one articulation.

    UsdPhysics allows a rigid body inside another within an articulation only, or with `!resetXformStack!`. Elsewhere a
    simulator moves the inner body twice: once by itself, and once with the body around it.
    """
    if context.format != usd.FORMAT:
        return
    for link in context.links:
        outer = context.link_by_name.get(link.nested_in or "")
        if link.nested_in is None or link.attributes.get(usd.KEPT_RESET):
            continue
        if outer is None or not _together(outer, link):
            message = f'{label(link)} is inside link "{link.nested_in}", outside of any articulation'
            hint = "connect the two by joints under one PhysicsArticulationRootAPI, or put them side by side"
            yield Finding(link, message, hint)


def _together(outer: Link, inner: Link) -> bool:
    root = inner.attributes.get(usd.KEPT_ARTICULATION)
    return root is not None and outer.attributes.get(usd.KEPT_ARTICULATION) == root


@rule("articulation.kinematic", Severity.ERROR)
def kinematic(context: Context) -> Iterable[Finding]:
    """A kinematic link hangs on one that is simulated, in an articulation.

    Links that the user moves must form an unbroken run from the articulation's root downward: below a simulated link,
    nothing can both follow its joint and be somewhere else.
    """
    if context.format != usd.FORMAT:
        return
    for edge in context.tree.edges:
        child, parent = context.link_by_name[edge.child], context.link_by_name.get(edge.parent or "")
        if parent is not None and child.kinematic and not parent.kinematic and _together(parent, child):
            message = f"{label(child)} is kinematic, but hangs on {label(parent)}, which is simulated"
            hint = "make every link between it and the articulation's root kinematic, or none below it"
            yield Finding(child, message, hint)
