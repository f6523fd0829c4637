"""Assets of an MJCF file that no shape shows, or that USD cannot show: kept as their text, with their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kinema.description import Assembly, Extra, Robot, Shape, World
from kinema.words import mjcf, ours

from ..report import Action
from ..textures import NoImage
from .draft import PrimDraft
from .writing import Writing

_KEPT = (mjcf.TEXTURE, mjcf.MATERIAL, mjcf.MESH, mjcf.HFIELD)
_FILE = re.compile(rf'\b({"|".join(mjcf.TEXTURE_FILES)})(\s*=\s*)"([^"]*)"')
_NAME = re.compile(r'\bname\s*=\s*"([^"]*)"')
_TEXTURE = re.compile(r'\btexture\s*=\s*"([^"]*)"')


def keep_assets(writing: Writing, prim: PrimDraft, assembly: Assembly) -> list[Extra]:
    """Put the texts on a prim; those that are in the stage now, in whatever way."""
    shown = _shown_textures(writing.described) - _wanted_textures(assembly)
    kept: dict[int, str] = {}
    given: list[Extra] = []
    for extra in assembly.extras:
        if extra.format != mjcf.FORMAT or extra.tag not in _KEPT:
            continue
        found = _NAME.search(extra.text)
        if extra.tag == mjcf.TEXTURE and found and found[1] in shown:
            given.append(extra)  # materials show its image
        elif (text := _with_files(writing, assembly, extra)) is not None:
            kept[id(extra)] = text
            given.append(extra)
    if kept:
        listed = [[extra.tag, kept[id(extra)]] for extra in given if id(extra) in kept]
        prim.keep(ours.ASSETS, json.dumps(listed, ensure_ascii=False))
        tags = ", ".join(dict.fromkeys(tag for tag, _ in listed))
        writing.lose(
            Action.EXTENSION, assembly, f"assets that no shape shows: {tags}", "they are kept for Kinema alone"
        )
    return given


def _with_files(writing: Writing, assembly: Assembly, extra: Extra) -> str | None:
    """The text with its files beside the stage; None where one is not to be had."""
    known: Mapping[str, str] = assembly.attributes.get(mjcf.key(mjcf.FILES), {})
    home = Path(extra.origin.file or assembly.source).parent
    places: dict[str, str] = {}
    for _, _, uri in _FILE.findall(extra.text):
        file = Path(known[uri]) if known.get(uri) else home / uri.replace("\\", "/")
        try:
            places[uri] = writing.materials.place(str(file))
        except NoImage:
            return None
    return _FILE.sub(lambda m: f'{m[1]}{m[2]}"{places[m[3]]}"', extra.text)


def _shown_textures(described: Robot | World) -> set[str]:
    """The textures whose images are in the stage as those of materials."""
    materials = [shape.material for shape in _shapes(described) if shape.material is not None]
    tables = [m.attributes.get(mjcf.key(mjcf.TEXTURES), {}) for m in materials if m.texture and not m.image_color]
    return {name for table in tables for name in table.values()}


def _wanted_textures(assembly: Assembly) -> set[str]:
    """The textures that kept texts of materials name."""
    texts = [extra.text for extra in assembly.extras if extra.tag == mjcf.MATERIAL]
    return {name for text in texts for name in _TEXTURE.findall(text)}


def _shapes(described: Robot | World) -> Iterator[Shape]:
    for robot in described.robots if isinstance(described, World) else [described]:
        for link in robot.links:
            yield from link.shapes
    if isinstance(described, World):
        yield from described.shapes
