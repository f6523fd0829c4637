"""Names and order of links, joints and shapes, where a stage of Kinema's keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kinema.description import Inertial, Link, Node
from kinema.foundation import vector
from kinema.words import mjcf, ours

from . import pxr
from .own_kinds import fitting
from .own_settings import own
from .own_values import BadValueError, plain_table, surface
from .stage_index import StageIndex

T = TypeVar("T")


def own_names(index: StageIndex, prims: Mapping[str, pxr.Prim], derived: dict[str, str]) -> dict[str, str]:
    """Path -> name: the one that is kept on the prim where nothing else is called so, else the derived one."""
    if index.values.stamp is None:
        return derived
    kept = {path: own(index, prim, ours.NAME) for path, prim in prims.items()}
    wanted = {path: kept[path] or derived[path] for path in prims}
    counts = Counter(wanted.values())
    taken = set(derived.values())
    result: dict[str, str] = {}
    for path, name in wanted.items():
        others = name in taken and derived[path] != name and counts[name] > 1
        result[path] = name if counts[name] == 1 and not others else derived[path]
    return result if len(set(result.values())) == len(result) else derived


def own_order(index: StageIndex, items: Sequence[T], prims: Sequence[pxr.Prim]) -> list[T]:
    """The items in the order that their prims keep; those that keep none stay as they are, behind the others."""
    if index.values.stamp is None:
        return list(items)
    numbers = [own(index, prim, ours.ORDER) for prim in prims]
    last = len(items)
    return [item for _, item in sorted(zip(numbers, items, strict=True), key=lambda p: last if p[0] is None else p[0])]


def mark_generated(index: StageIndex, prim: pxr.Prim, node: Node) -> None:
    """Whether the name was made up by a reader; and what the format that it came from said besides."""
    node.name_is_generated = bool(own(index, prim, ours.NAME_IS_GENERATED))
    node.order = own(index, prim, ours.PLACE)
    node.attributes |= kept_attributes(index, prim)


def kept_attributes(index: StageIndex, prim: pxr.Prim) -> dict[str, Any]:
    """What the format that a node came from said besides."""
    table = kept_table(index, prim, ours.ATTRIBUTES)
    if not table:
        return {}
    found = fitting(table, mjcf.key(""))
    unused = mjcf.key(mjcf.UNUSED_SURFACE)
    if unused in found:
        found[unused] = surface(found[unused])
    return found


def kept_table(index: StageIndex, prim: pxr.Prim, setting: ours.Setting) -> dict[str, Any]:
    """Settings of other formats that a prim keeps."""
    text = own(index, prim, setting)
    if text is None:
        return {}
    try:
        return plain_table(text)
    except BadValueError:
        message = f"{setting.name} of {prim.GetName()!r} is not what it should be; it is left out"
        index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))
        return {}


def restore_link(index: StageIndex, prim: pxr.Prim, link: Link) -> None:
    """What USD has no word for on a link."""
    mark_generated(index, prim, link)
    scale = own(index, prim, ours.GRAVITY_SCALE)
    if scale is not None:
        link.gravity_scale = float(scale)


def declared(index: StageIndex, articulations: Sequence[pxr.Prim]) -> list[pxr.Prim]:
    """The articulation roots that a stage declares, without those that only its layout asked for."""
    return [p for p in articulations if ours.IMPLIED_ARTICULATION_ROOT not in (own(index, p, ours.IMPLIED) or ())]


def weightless(index: StageIndex, prim: pxr.Prim) -> Inertial | None:
    """The mass properties of a link that USD is not told them of; None where it has none at all."""
    center, tensor = own(index, prim, ours.MASSLESS_CENTER), own(index, prim, ours.MASSLESS_INERTIA)
    if center is None or tensor is None or len(tensor) != 6:
        return None
    xx, yy, zz, xy, xz, yz = (float(v) for v in tensor)
    return Inertial(
        float(own(index, prim, ours.MASSLESS_MASS) or 0.0),
        vector(list(center)),
        np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]),
    )
