"""Assets of an MJCF file that a stage keeps as text. Anybody can write them: files lie where the writer puts them."""

from __future__ import annotations

import json
import re

from kinema.description import Extra
from kinema.words import mjcf, ours

from . import pxr
from .own_settings import own
from .stage_index import StageIndex

_MOST_TEXT = 4_000_000
_TAGS = (mjcf.TEXTURE, mjcf.MATERIAL, mjcf.MESH, mjcf.HFIELD)
_FILE = re.compile(r"""\b(?:file\w*|content_type)\s*=\s*["']([^"']*)["']""")
_BESIDE = re.compile(r"textures/[\w-]+(\.\w+)?")


def kept_assets(index: StageIndex, prim: pxr.Prim) -> list[Extra]:
    """What a prim keeps; what is something else, or asks for files elsewhere, is left out with a warning."""
    text = own(index, prim, ours.ASSETS)
    if text is None:
        return []
    found = _listed(text)
    good = [(tag, asset) for tag, asset in found if _is_harmless(tag, asset)]
    if not found or len(good) < len(found):
        message = f"{ours.ASSETS.name} of {prim.GetName()!r} is not what it should be; it is left out"
        index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))
    return [Extra(mjcf.FORMAT, tag, asset, index.origin(prim)) for tag, asset in good]


def _listed(text: str) -> list[tuple[str, str]]:
    try:
        items = json.loads(text) if len(text) <= _MOST_TEXT else []
    except (ValueError, RecursionError):
        return []
    if not isinstance(items, list):
        return []
    pairs = [item for item in items if isinstance(item, list) and len(item) == 2]
    return [(tag, asset) for tag, asset in pairs if isinstance(tag, str) and isinstance(asset, str)]


def _is_harmless(tag: str, asset: str) -> bool:
    """Whether a text is one element of a known kind, whose files are among the images beside the stage."""
    is_element = asset.startswith(f"<{tag}") and "&" not in asset and "<!" not in asset
    return tag in _TAGS and is_element and all(_BESIDE.fullmatch(file) for file in _FILE.findall(asset))
