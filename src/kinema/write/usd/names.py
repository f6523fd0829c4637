"""What a prim is called, and the vendor settings that come back where they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kinema.description import Extra, Node
from kinema.words import mjcf, ours, usd

from ..bookkeeping import missed
from ..report import Action
from .draft import PrimDraft
from .record_values import keep_table
from .writing import Writing


def author_name(writing: Writing, prim: PrimDraft, node: Node) -> None:
    """Keep the name of a node that USD cannot call by it, or that a reader would have to tell apart by its path."""
    if node.name_is_generated:
        prim.keep(ours.NAME_IS_GENERATED, True)
    if prim.name != node.name or prim.name in writing.repeated:
        prim.keep(ours.NAME, node.name)
    if node.name and prim.name != node.name and not node.name_is_generated and writing.described.format != usd.FORMAT:
        prim.tell(displayName=node.name)


def give_back(writing: Writing, prim: PrimDraft, node: Node, said: Sequence[Extra] = ()) -> None:
    """Settings of other USD vendors as they were read; those of other formats are lost, but for what is `said`."""
    known: set[str] = set()
    for key, value in node.attributes.items():
        if key.startswith(usd.KEPT) and isinstance(value, tuple):
            name = key.removeprefix(usd.KEPT)
            if _set_again(prim, name, *value):
                known.add(name)
    for schema in node.attributes.get(usd.KEPT_SCHEMAS, ()):
        prim.apply(schema)
    kept = keep_table(prim, ours.ATTRIBUTES, _of_other_formats(node.attributes))
    left = [extra for extra in node.extras if not any(extra is other for other in said)]
    lost = [f"{e.format} {e.tag}" for e in left if not (e.format == usd.FORMAT and e.tag in known)]
    lost += [key for key in missed(node.attributes) if not key.startswith(usd.KEPT) and key not in kept]
    if lost:
        shown = ", ".join(dict.fromkeys(lost))
        writing.lose(Action.DROPPED, node, f"settings of its own format: {shown}", "USD has no place for them")
    report_kept(writing, node, missed(kept))


def _of_other_formats(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What is worth keeping: not what the stage says anyway, nor where files lie on this machine."""
    return {k: v for k, v in attributes.items() if not k.startswith(usd.KEPT) and k != mjcf.key(mjcf.FILES)}


def report_kept(writing: Writing, node: Node, names: Sequence[str]) -> None:
    """Say that settings are in the file for our own reader alone."""
    if names:
        what = f"settings of its own format: {', '.join(names)}"
        writing.lose(Action.EXTENSION, node, what, "they are kept for Kinema alone")


def _set_again(prim: PrimDraft, name: str, kind: Any, value: Any) -> bool:
    if not isinstance(kind, str) or prim.spec.attributes.get(name) is not None:
        return False
    try:
        prim.set(name, kind, value, custom=True)
    except Exception:  # OpenUSD raises many types, one of them its own
        return False
    return True
