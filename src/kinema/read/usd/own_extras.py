"""What a writer needs to give vendor settings back as they were: types, plain values, and schemas."""

from __future__ import annotations

from typing import Any

from kinema.description import Node
from kinema.words import mjc, newton, physx, usd

from . import pxr
from .schemas import BRINGS

_VENDORS = (newton.SCHEMAS, mjc.SCHEMAS, physx.SCHEMAS, "Drake", "Isaac", "Omni")


def keep_for_writing(prim: pxr.Prim, node: Node, attribute: Any, value: Any) -> None:
    """Put the type and value of a vendor attribute on its node, and the vendor schemas of its prim."""
    if value is None:
        return
    node.attributes[usd.KEPT + attribute.GetName()] = (str(attribute.GetTypeName()), _plain(value))
    if usd.KEPT_SCHEMAS not in node.attributes:
        names = prim.GetPrimTypeInfo().GetAppliedAPISchemas()
        # those that bring one of the schema's own are applied by whoever needs that one
        node.attributes[usd.KEPT_SCHEMAS] = [n for n in names if n.startswith(_VENDORS) and n not in BRINGS]


def _plain(value: Any) -> Any:
    """A value without OpenUSD's types: numbers, texts, and lists of them."""
    if isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "GetReal"):
        return [value.GetReal(), *value.GetImaginary()]
    if isinstance(value, pxr.Sdf.AssetPath):
        return value.path
    try:
        return [_plain(v) for v in value]
    except TypeError:
        return str(value)
