"""Plugins, textures, sections and assets preserved verbatim from an MJCF file, and reports of unwritten attributes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from kinema.core import ReadError, XmlElement, parse_xml, to_identifier, unique_name
from kinema.description import Actuator, Assembly, Camera, Extra, Light, Mesh, Node, Sensor
from kinema.tokens import mjcf

from ..loss_report import reportable_attributes, reportable_settings
from ..mesh_files import MESH_FOLDER
from ..xml_document import Element
from .context import MjcfContext


def parse_fragment(text: str) -> Element | None:
    """Parse preserved source text to an element, without comments; None if it is not well-formed or has a DOCTYPE."""
    try:
        return _convert_element(parse_xml(text.encode(), ""))
    except (ReadError, UnicodeError):
        return None


def _convert_element(parsed: XmlElement) -> Element:
    element = Element(parsed.tag, parsed.attributes)
    element.children += [_convert_element(child) for child in parsed.children]
    return element


# -------------------------------------------------------------------------------------------------------------- plugins


def plugin_elements(ctx: MjcfContext, node: Node) -> list[Element]:
    """Preserved `<plugin>` elements of a body or geom; marks them as written."""
    found: list[Element] = []
    for extra in node.extras:
        if extra.format == mjcf.FORMAT and extra.tag == mjcf.PLUGIN:
            element = parse_fragment(extra.text)
            if element is not None:
                found.append(element)
                _mark_written(ctx, extra)
    return found


def first_plugin_element(ctx: MjcfContext, node: Node) -> Element | None:
    """Preserved `<plugin>` element that replaces an actuator or sensor; None if there is none."""
    return next(iter(plugin_elements(ctx, node)), None)


def _mark_written(ctx: MjcfContext, extra: Extra) -> None:
    ctx.used_settings.add((id(extra), ""))


# -------------------------------------------------------------------------------------------------- sections and assets


def write_textures(ctx: MjcfContext) -> None:
    """Write the preserved textures of MJCF sources, which materials refer to by name."""
    for home in ctx.assemblies:
        for extra in home.extras:
            if extra.format == mjcf.FORMAT and extra.tag == mjcf.TEXTURE:
                _write_texture(ctx, home, extra)


def _write_texture(ctx: MjcfContext, assembly: Assembly, extra: Extra) -> None:
    """Write a preserved texture with its image files placed beside the output; nothing if a file is missing."""
    element = parse_fragment(extra.text)
    if element is None:
        return
    given = element.attributes
    name = asset_name(element)
    for attribute in mjcf.TEXTURE_FILES:
        if attribute in given:
            file = _resolve_file(assembly, extra, given[attribute])
            if file is None:
                return  # it is reported with the other texts that are not given back
            given[attribute] = ctx.materials.texture_store.place_image(str(file))
    given.pop("class", None)
    own = {"name": ctx.names.new_name(mjcf.TEXTURE, name)} if name else {}  # a skybox needs none
    element.attributes = {**own, **{k: v for k, v in given.items() if k != "name"}}
    ctx.section(mjcf.ASSET).children.append(element)
    _mark_written(ctx, extra)


def _resolve_file(assembly: Assembly, extra: Extra, uri: str) -> Path | None:
    """Existing file that preserved source text refers to; None if not found."""
    known: Mapping[str, str] = assembly.attributes.get(mjcf.attribute_key(mjcf.FILES), {})
    beside = Path(extra.origin.file or assembly.source).parent / uri.replace("\\", "/")
    candidates = [Path(known[uri])] if known.get(uri) else [beside]
    return next((path for path in candidates if path.is_file()), None)


def write_unused_assets(ctx: MjcfContext) -> None:
    """Write the preserved assets that no geom uses; sensors may refer to them."""
    for home in ctx.assemblies:
        ctx.use_attribute(home, mjcf.FILES)
        for extra in home.extras:
            if extra.format == mjcf.FORMAT and extra.tag in (mjcf.MATERIAL, mjcf.MESH, mjcf.HFIELD, mjcf.SKIN):
                _write_unused_asset(ctx, home, extra)


def write_verbatim_sections(ctx: MjcfContext) -> None:
    """Write the preserved sections.

    The deformable section is omitted if the source has a `flexcomp`, which generates its content.
    """
    deformed = any(e.tag == mjcf.FLEXCOMP for home in ctx.assemblies for e in home.extras)
    for home in ctx.assemblies:
        for extra in home.extras:
            is_section = extra.format == mjcf.FORMAT and extra.tag in mjcf.VERBATIM_SECTIONS
            if is_section and not (extra.tag == mjcf.DEFORMABLE and deformed):
                _write_section(ctx, home, extra)


def _write_section(ctx: MjcfContext, assembly: Assembly, extra: Extra) -> None:
    """Append a preserved section with its skin files copied; nothing if a file is missing."""
    element = parse_fragment(extra.text)
    if element is None:
        return
    skins = [e for e in element.children if isinstance(e, Element) and e.tag == mjcf.SKIN and "file" in e.attributes]
    files = [_resolve_file(assembly, extra, skin.attributes["file"]) for skin in skins]
    if None in files:
        return  # it is reported with the other texts that are not given back
    for skin, file in zip(skins, files, strict=True):
        assert file is not None  # or there would be nothing to write
        skin.attributes["file"] = _copy_file(ctx, file)
    ctx.document.verbatim_sections.append(element)
    _mark_written(ctx, extra)


def asset_name(element: Element) -> str:
    """Name of an asset in MuJoCo: its `name` attribute, else the stem of its file."""
    given = element.attributes
    return given.get("name") or Path(given.get("file", "").replace("\\", "/")).stem


def _write_unused_asset(ctx: MjcfContext, assembly: Assembly, extra: Extra) -> None:
    """Write a preserved material, mesh, height field or skin that no geom refers to."""
    element = parse_fragment(extra.text)
    if element is None:
        return
    given = element.attributes
    given.pop("class", None)
    name = asset_name(element)
    if name in ctx.names.taken_names.get(extra.tag, ()):
        return _mark_written(ctx, extra)  # it is written already, for a site
    texture = given.get("texture")
    if texture is not None and texture not in ctx.names.taken_names.get(mjcf.TEXTURE, ()):
        del given["texture"]
    if "file" in given:
        file = _resolve_file(assembly, extra, given["file"])
        if file is None:
            return None
        given["file"] = _copy_file(ctx, file)
    if name:
        given.pop("name", None)
        element.attributes = {"name": ctx.names.new_name(extra.tag, name), **given}
    ctx.section(mjcf.ASSET).children.append(element)
    return _mark_written(ctx, extra)


def _copy_file(ctx: MjcfContext, file: Path) -> str:
    """Copy a file into the mesh folder without reading it and return its name there."""
    store = ctx.meshes.store
    if file.suffix.lower() in store.suffixes:
        placed = store.place_mesh(Mesh(path=str(file)), file.stem)
        if placed is not None:
            return placed[0].removeprefix(f"{MESH_FOLDER}/")
    folder = store.staging_folder / MESH_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    taken = {path.name for path in folder.iterdir()}
    name = unique_name(to_identifier(file.stem), {Path(n).stem for n in taken}) + file.suffix.lower()
    shutil.copyfile(file, folder / name)
    return name


# ------------------------------------------------------------------------------------- attributes that were not written


def report_unwritten(ctx: MjcfContext) -> None:
    """Report every preserved text and every format-specific attribute of the description that was not written."""
    for node in _all_nodes(ctx):
        for extra in node.extras:
            if (id(extra), "") not in ctx.used_settings:
                whose = "" if extra.format == mjcf.FORMAT else f"it is of {extra.format}, "
                how = f"{whose}kept as text that cannot be given back here"
                ctx.report_dropped(node, f"<{extra.tag}>", how)
        texts = {extra.tag for extra in node.extras}
        for name in reportable_attributes(ctx.unused_settings(node.attributes)):
            if name.partition(":")[2] in texts:
                continue  # it was kept as text as well, and is reported
            ctx.report_dropped(node, f"the setting {name!r}", "MuJoCo has none such")
        if isinstance(node, Actuator | Sensor | Camera | Light):
            for name in reportable_settings(ctx.unused_settings(node.settings)):
                ctx.report_dropped(node, f"the setting {name!r}", "MuJoCo has none such")


def _all_nodes(ctx: MjcfContext) -> Iterator[Node]:
    """Iterate over all nodes of the description, including materials (each once)."""
    for home in ctx.assemblies:
        yield home
        for items in (
            *(home.constraints, home.actuators, home.tendons, home.sensors, home.frames),
            *(home.cameras, home.lights, home.keyframes, home.collision.groups),
        ):
            yield from items
        yield from (p.surface for p in home.collision.pairs if p.surface is not None)
    for robot in ctx.robots:
        yield from robot.joints
        yield from robot.links
    shapes = [*ctx.static_shapes, *(s for robot in ctx.robots for link in robot.links for s in link.shapes)]
    seen: set[int] = set()
    for shape in shapes:
        yield shape
        for material in (shape.material, shape.surface):
            if material is not None and id(material) not in seen:
                seen.add(id(material))
                yield material
