"""What the description has no place for: kept verbatim, and said aloud where it would change how the robot moves."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from kinema.description import Extra
from kinema.read.xml_text import XmlElement
from kinema.words import mjcf

from .bases import is_note
from .reading import Reading, floats

_LOUD = {
    mjcf.FLEXCOMP: ("deformable", "the deformable body is kept as text; only the bodies that carry it are read"),
    mjcf.FLEX: ("deformable", "the deformable body is kept as text; only the bodies that carry it are read"),
    mjcf.SKIN: ("skin", "skins are for the eye only and are kept as text"),
}


def leftovers(reading: Reading) -> list[Extra]:
    """Elements that belong to the whole model."""
    kept: list[Extra] = []
    for document in reading.compiled.prepared.document.all_documents():
        for section in document.root.children:
            if section.tag in mjcf.KEPT_SECTIONS and not _says_nothing(section):
                kept.append(_extra(section))
            elif section.tag == mjcf.ASSET:
                kept += [_extra(e) for e in section.children if e.tag in (mjcf.TEXTURE, mjcf.SKIN)]
        for element in document.root.iterate():
            if element.tag == mjcf.FLEXCOMP:
                kept.append(_extra(element))
        _say(reading, document.root)
    return kept + list(_unused_assets(reading))


def _says_nothing(section: XmlElement) -> bool:
    """Whether a section is empty, but for notes of our own that were read."""
    return not section.attributes and all(is_note(child) for child in section.children)


def plugins_of(reading: Reading, kind: str, number: int) -> list[Extra]:
    """The plugin elements of a body, geom, actuator or sensor, with a warning: plugins are programs of MuJoCo's."""
    element = reading.element(kind, number)
    if element is None:
        return []
    found = [element] if element.tag == mjcf.PLUGIN else element.find_all(mjcf.PLUGIN)
    for plugin in found:
        message = f"the plugin {plugin.attributes.get('plugin', plugin.attributes.get('instance', ''))!r} is not run"
        reading.warning("plugin", message, plugin.origin, "its element is kept as text")
    return [_extra(p) for p in found]


def _say(reading: Reading, root: XmlElement) -> None:
    in_defaults = {id(e) for section in root.find_all(mjcf.DEFAULT) for e in section.iterate()}
    in_equality = {id(e) for section in root.find_all(mjcf.EQUALITY) for e in section.iterate()}
    for element in root.iterate():
        if element.tag in _LOUD and id(element) not in in_defaults and id(element) not in in_equality:
            code, message = _LOUD[element.tag]
            name = element.attributes.get("name", "")
            reading.warning(code, f'<{element.tag}> "{name}": {message}', element.origin)


def _unused_assets(reading: Reading) -> Iterator[Extra]:
    """Materials, meshes and height fields that no geom or site shows."""
    model = reading.model
    used_materials = {int(m) for table in (model.geom_matid, model.site_matid, model.tendon_matid) for m in table}
    used_data: dict[str, set[int]] = {"meshes": set(), "hfields": set()}
    for geom in range(model.ngeom):
        data = int(model.geom_dataid[geom])
        if data >= 0:
            is_field = int(model.geom_type[geom]) == 1
            used_data["hfields" if is_field else "meshes"].add(data)
    for kind, count, used in (
        ("materials", model.nmat, used_materials),
        ("meshes", model.nmesh, used_data["meshes"]),
        ("hfields", model.nhfield, used_data["hfields"]),
    ):
        for number in set(range(count)) - used:
            element = reading.element(kind, number)
            if element is not None:
                yield _with_scale(_extra(element), element, reading.spec(kind, number))


def _with_scale(extra: Extra, element: XmlElement, spec: Any) -> Extra:
    """A mesh with the scale that its class gives it; the text alone does not tell."""
    scale = floats(spec.scale) if element.tag == mjcf.MESH and spec is not None else ()
    if "scale" in element.attributes or not scale or scale == (1.0, 1.0, 1.0):
        return extra
    given = " ".join(map(repr, scale))
    return dataclasses.replace(extra, text=extra.text.replace("<mesh", f'<mesh scale="{given}"', 1))


def _extra(element: XmlElement) -> Extra:
    return Extra(mjcf.FORMAT, element.tag, element.verbatim, element.origin)
