"""What was kept of an MJCF file as text is given back; what other formats left is reported."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from kinema.description import Actuator, Assembly, Camera, Extra, Light, Mesh, Node, Sensor
from kinema.foundation import clean_name, unique_name
from kinema.words import mjcf

from ..bookkeeping import missed, missed_settings
from ..meshes import FOLDER
from ..text import Element
from .writing import Writing


def parse_fragment(text: str) -> Element | None:
    """Kept source text as an element; None where it is none. Comments are left out."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        return None
    try:
        parsed = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError):
        return None
    return _element(parsed)


def _element(parsed: ElementTree.Element) -> Element:
    element = Element(parsed.tag, dict(parsed.attrib))
    element.children += [_element(child) for child in parsed]
    return element


# -- plugins ----------------------------------------------------------------------------------------------------------


def plugins(writing: Writing, node: Node) -> list[Element]:
    """The plugins of a body or geom."""
    found: list[Element] = []
    for extra in node.extras:
        if extra.format == mjcf.FORMAT and extra.tag == mjcf.PLUGIN:
            element = parse_fragment(extra.text)
            if element is not None:
                found.append(element)
                _given_back(writing, extra)
    return found


def plugin_element(writing: Writing, node: Node) -> Element | None:
    """An actuator or sensor that is a plugin as a whole."""
    return next(iter(plugins(writing, node)), None)


def _given_back(writing: Writing, extra: Extra) -> None:
    writing.used.add((id(extra), ""))


# -- sections and assets ----------------------------------------------------------------------------------------------


def write_textures(writing: Writing) -> None:
    """The textures of the file, which materials refer to by name."""
    for home in writing.homes:
        for extra in home.extras:
            if extra.format == mjcf.FORMAT and extra.tag == mjcf.TEXTURE:
                _texture(writing, home, extra)


def _texture(writing: Writing, home: Assembly, extra: Extra) -> None:
    element = parse_fragment(extra.text)
    if element is None:
        return
    given = element.attributes
    name = asset_name(element)
    for attribute in mjcf.TEXTURE_FILES:
        if attribute in given:
            file = _resolved(home, extra, given[attribute])
            if file is None:
                return  # it is reported with the other texts that are not given back
            given[attribute] = writing.materials.files.place(str(file))
    given.pop("class", None)
    own = {"name": writing.names.new(mjcf.TEXTURE, name)} if name else {}  # a skybox needs none
    element.attributes = {**own, **{k: v for k, v in given.items() if k != "name"}}
    writing.section(mjcf.ASSET).children.append(element)
    _given_back(writing, extra)


def _resolved(home: Assembly, extra: Extra, uri: str) -> Path | None:
    """The file that a kept text refers to."""
    known: Mapping[str, str] = home.attributes.get(mjcf.key(mjcf.FILES), {})
    beside = Path(extra.origin.file or home.source).parent / uri.replace("\\", "/")
    candidates = [Path(known[uri])] if known.get(uri) else [beside]
    return next((path for path in candidates if path.is_file()), None)


def write_extras(writing: Writing) -> None:
    """The other texts that belong to the whole file."""
    deformed = any(e.tag == mjcf.FLEXCOMP for home in writing.homes for e in home.extras)
    for home in writing.homes:
        writing.take(home, mjcf.FILES)
        for extra in home.extras:
            if extra.format != mjcf.FORMAT:
                continue
            if extra.tag in mjcf.KEPT_SECTIONS and not (extra.tag == mjcf.DEFORMABLE and deformed):
                _section(writing, home, extra)
            elif extra.tag in (mjcf.MATERIAL, mjcf.MESH, mjcf.HFIELD, mjcf.SKIN):
                _asset(writing, home, extra)


def _section(writing: Writing, home: Assembly, extra: Extra) -> None:
    element = parse_fragment(extra.text)
    if element is None:
        return
    skins = [e for e in element.children if isinstance(e, Element) and e.tag == mjcf.SKIN and "file" in e.attributes]
    files = [_resolved(home, extra, skin.attributes["file"]) for skin in skins]
    if None in files:
        return  # it is reported with the other texts that are not given back
    for skin, file in zip(skins, files, strict=True):
        assert file is not None  # or there would be nothing to write
        skin.attributes["file"] = _copied(writing, file)
    writing.document.given_back.append(element)
    _given_back(writing, extra)


def asset_name(element: Element) -> str:
    """What MuJoCo calls an asset: its name, else that of its file."""
    given = element.attributes
    return given.get("name") or Path(given.get("file", "").replace("\\", "/")).stem


def _asset(writing: Writing, home: Assembly, extra: Extra) -> None:
    """An asset that nothing shows."""
    element = parse_fragment(extra.text)
    if element is None:
        return
    given = element.attributes
    given.pop("class", None)
    name = asset_name(element)
    if name in writing.names.taken.get(extra.tag, ()):
        return _given_back(writing, extra)  # it is written already, for a site
    texture = given.get("texture")
    if texture is not None and texture not in writing.names.taken.get(mjcf.TEXTURE, ()):
        del given["texture"]
    if "file" in given:
        file = _resolved(home, extra, given["file"])
        if file is None:
            return None
        given["file"] = _copied(writing, file)
    if name:
        given.pop("name", None)
        element.attributes = {"name": writing.names.new(extra.tag, name), **given}
    writing.section(mjcf.ASSET).children.append(element)
    return _given_back(writing, extra)


def _copied(writing: Writing, file: Path) -> str:
    """A file that is not looked into, beside the others."""
    store = writing.meshes.store
    if file.suffix.lower() in store.suffixes:
        placed = store.place(Mesh(path=str(file)), file.stem)
        if placed is not None:
            return placed[0].removeprefix(f"{FOLDER}/")
    folder = store.draft / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    taken = {path.name for path in folder.iterdir()}
    name = unique_name(clean_name(file.stem), {Path(n).stem for n in taken}) + file.suffix.lower()
    shutil.copyfile(file, folder / name)
    return name


# -- what is left -----------------------------------------------------------------------------------------------------


def report_leftovers(writing: Writing) -> None:
    """Every kept text and every setting of one format that is not in the file."""
    for node in _nodes(writing):
        for extra in node.extras:
            if (id(extra), "") not in writing.used:
                whose = "" if extra.format == mjcf.FORMAT else f"it is of {extra.format}, "
                how = f"{whose}kept as text that cannot be given back here"
                writing.drop(node, f"<{extra.tag}>", how)
        texts = {extra.tag for extra in node.extras}
        for name in missed(writing.left_over(node.attributes)):
            if name.partition(":")[2] in texts:
                continue  # it was kept as text as well, and is reported
            writing.drop(node, f"the setting {name!r}", "MuJoCo has none such")
        if isinstance(node, Actuator | Sensor | Camera | Light):
            for name in missed_settings(writing.left_over(node.settings)):
                writing.drop(node, f"the setting {name!r}", "MuJoCo has none such")


def _nodes(writing: Writing) -> Iterator[Node]:
    """Every node of the description."""
    for home in writing.homes:
        yield home
        for items in (
            *(home.constraints, home.actuators, home.tendons, home.sensors, home.frames),
            *(home.cameras, home.lights, home.keyframes, home.collision.groups),
        ):
            yield from items
        yield from (p.surface for p in home.collision.pairs if p.surface is not None)
    for robot in writing.robots:
        yield from robot.joints
        yield from robot.links
    shapes = [*writing.scenery, *(s for robot in writing.robots for link in robot.links for s in link.shapes)]
    seen: set[int] = set()
    for shape in shapes:
        yield shape
        for material in (shape.material, shape.surface):
            if material is not None and id(material) not in seen:
                seen.add(id(material))
                yield material
