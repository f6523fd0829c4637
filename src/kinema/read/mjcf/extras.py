"""MJCF elements without a counterpart in the description, preserved verbatim, and Kinema's notes on unspecified bases.

Covers plugins, unused assets, deformables and similar elements. A warning is issued if the omission changes the
dynamics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from kinema.core import XmlElement
from kinema.description import Base, Extra, Joint, Link
from kinema.tokens import mjcf

from .model_reader import ModelReader, to_floats

# -- robots with an unspecified base -----------------------------------------------------------------------------------


def bodies_with_unspecified_base(reader: ModelReader) -> set[str]:
    """Names of bodies whose fixed base was unspecified in the original description."""
    documents = reader.compiled.prepared.document.all_documents()
    texts = [text for d in documents for section in d.root.find_all(mjcf.CUSTOM) for text in section.children]
    return {
        text.attributes["name"].removeprefix(mjcf.BASE_TEXT_PREFIX)
        for text in texts
        if is_base_note(text) and text.attributes.get("data") == Base.UNSPECIFIED.value
    }


def is_base_note(element: XmlElement) -> bool:
    """Whether an element is a note of Kinema on an unspecified base."""
    return element.tag == "text" and element.attributes.get("name", "").startswith(mjcf.BASE_TEXT_PREFIX)


def remove_implicit_base_joints(links: list[Link], joints: list[Joint], unspecified_bodies: set[str]) -> list[Joint]:
    """Joints without the implicit fixed joints that attach unspecified bases to the world.

    The pose of a removed joint becomes the pose of its link.
    """
    remaining: list[Joint] = []
    by_name = {link.name: link for link in links}
    for joint in joints:
        if joint.implicit and joint.parent is None and joint.child in unspecified_bodies:
            by_name[joint.child].pose = joint.parent_pose
        else:
            remaining.append(joint)
    return remaining


# -- preserved elements ------------------------------------------------------------------------------------------------

_UNSUPPORTED_ELEMENTS = {
    mjcf.FLEXCOMP: ("deformable", "the deformable body is kept as text; only the bodies that carry it are read"),
    mjcf.FLEX: ("deformable", "the deformable body is kept as text; only the bodies that carry it are read"),
    mjcf.SKIN: ("skin", "skins are for the eye only and are kept as text"),
}


def collect_extras(reader: ModelReader) -> list[Extra]:
    """Elements of the whole model that are preserved verbatim, with warnings for unsupported ones."""
    extras: list[Extra] = []
    for document in reader.compiled.prepared.document.all_documents():
        for section in document.root.children:
            if section.tag in mjcf.VERBATIM_SECTIONS and not _is_empty_section(section):
                extras.append(_verbatim_extra(section))
            elif section.tag == mjcf.ASSET:
                extras += [_verbatim_extra(e) for e in section.children if e.tag in (mjcf.TEXTURE, mjcf.SKIN)]
        for element in document.root.iterate():
            if element.tag == mjcf.FLEXCOMP:
                extras.append(_verbatim_extra(element))
        _warn_unsupported(reader, document.root)
    return extras + list(_unused_assets(reader))


def _is_empty_section(section: XmlElement) -> bool:
    """Whether a section contains nothing but Kinema's notes."""
    return not section.attributes and all(is_base_note(child) for child in section.children)


def plugin_extras(reader: ModelReader, kind: str, index: int) -> list[Extra]:
    """Plugin elements of a body, geom, actuator or sensor, preserved verbatim with a warning."""
    element = reader.xml_element(kind, index)
    if element is None:
        return []
    found = [element] if element.tag == mjcf.PLUGIN else element.find_all(mjcf.PLUGIN)
    for plugin in found:
        message = f"the plugin {plugin.attributes.get('plugin', plugin.attributes.get('instance', ''))!r} is not run"
        reader.warning("plugin", message, plugin.origin, "its element is kept as text")
    return [_verbatim_extra(p) for p in found]


def _warn_unsupported(reader: ModelReader, root: XmlElement) -> None:
    """Warn about deformables and skins outside of `<default>` and `<equality>`."""
    in_defaults = {id(e) for section in root.find_all(mjcf.DEFAULT) for e in section.iterate()}
    in_equality = {id(e) for section in root.find_all(mjcf.EQUALITY) for e in section.iterate()}
    for element in root.iterate():
        if element.tag in _UNSUPPORTED_ELEMENTS and id(element) not in in_defaults and id(element) not in in_equality:
            code, message = _UNSUPPORTED_ELEMENTS[element.tag]
            name = element.attributes.get("name", "")
            reader.warning(code, f'<{element.tag}> "{name}": {message}', element.origin)


def _unused_assets(reader: ModelReader) -> Iterator[Extra]:
    """Materials, meshes and height fields that no geom, site or tendon uses."""
    model = reader.model
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
        for index in set(range(count)) - used:
            element = reader.xml_element(kind, index)
            if element is not None:
                yield _with_scale(_verbatim_extra(element), element, reader.spec_element(kind, index))


def _with_scale(extra: Extra, element: XmlElement, spec: Any) -> Extra:
    """The extra of a mesh with the scale from its default class written into its text."""
    scale = to_floats(spec.scale) if element.tag == mjcf.MESH and spec is not None else ()
    if "scale" in element.attributes or not scale or scale == (1.0, 1.0, 1.0):
        return extra
    given = " ".join(map(repr, scale))
    return dataclasses.replace(extra, text=extra.text.replace("<mesh", f'<mesh scale="{given}"', 1))


def _verbatim_extra(element: XmlElement) -> Extra:
    return Extra(mjcf.FORMAT, element.tag, element.verbatim, element.origin)
