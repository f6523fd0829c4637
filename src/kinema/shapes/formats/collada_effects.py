"""COLLADA materials: effects of the common profile, taken from Phong's model into the physically based one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from xml.etree.ElementTree import Element

from kinema.shapes.appearance import Appearance
from kinema.shapes.formats.collada_document import ColladaDocument
from kinema.shapes.formats.numbers import parse_floats
from kinema.shapes.images import find_image
from kinema.shapes.look import Look, MapRole, Placement, Texture, Wrap, roughness_of_exponent

_MODELS = ("phong", "blinn", "lambert", "constant")
_WRAPS = {"WRAP": Wrap.REPEAT, "MIRROR": Wrap.MIRROR, "CLAMP": Wrap.CLAMP, "BORDER": Wrap.BLACK, "NONE": Wrap.BLACK}
_LUMINANCE = (0.212671, 0.715160, 0.072169)


class ColladaEffects:
    """The materials of a document, each read once."""

    def __init__(self, document: ColladaDocument) -> None:
        self._document = document
        self._known: dict[int, Look] = {}

    def bound(self, appearance: Appearance | None, instance: Element | None) -> Appearance | None:
        """An appearance with the materials that an instance of its geometry binds to the symbols."""
        if appearance is None or not appearance.materials:
            return appearance
        bindings = {} if instance is None else self._bindings(instance)
        looks = tuple(bindings.get(m.name) or self._by_name(m.name) or Look(name=m.name) for m in appearance.materials)
        return replace(appearance, materials=looks)

    def _bindings(self, instance: Element) -> Mapping[str, Look]:
        found: dict[str, Look] = {}
        for binding in instance.iterfind("bind_material/technique_common/instance_material"):
            material = self._document.find(binding, "target", "material")
            if material is not None:
                found[binding.get("symbol", "")] = self._read(material)
        return found

    def _by_name(self, symbol: str) -> Look | None:
        """Some exporters bind nothing and call the material itself in the place of a symbol."""
        for material in self._document.root.iterfind("library_materials/material"):
            if symbol in (material.get("id"), material.get("name")):
                return self._read(material)
        return None

    def _read(self, material: Element) -> Look:
        if id(material) not in self._known:
            look = Look(name=material.get("name") or material.get("id") or "")
            effect = self._document.find(material.find("instance_effect"), "url", "effect")
            profile = None if effect is None else effect.find("profile_COMMON")
            if profile is not None and effect is not None:
                _Effect(self._document, effect, profile, look).read()
            self._known[id(material)] = look
        return self._known[id(material)]


class _Effect:
    """One effect on its way into a look."""

    def __init__(self, document: ColladaDocument, effect: Element, profile: Element, look: Look) -> None:
        self._document = document
        self._effect = effect
        self._profile = profile
        self._look = look
        every = (*effect.iterfind("newparam"), *profile.iterfind("newparam"), *profile.iterfind("technique/newparam"))
        self._params = {item.get("sid", ""): item for item in every}

    def read(self) -> None:
        """Fill the look."""
        technique = self._profile.find("technique")
        model = None if technique is None else next((e for e in technique if e.tag in _MODELS), None)
        if technique is None or model is None:
            return
        look = self._look
        self._diffuse(model)
        emission = self._color(model.find("emission"))
        if emission is not None and any(emission[:3]):
            look.emission = emission[:3]
        specular = self._color(model.find("specular"))
        if specular is not None:
            look.specular = sum(specular[:3]) / 3
        exponent = self._float(model.find("shininess"))
        if exponent is not None:
            look.roughness = roughness_of_exponent(exponent)
        for role, element in (
            (MapRole.EMISSION, model.find("emission")),
            (MapRole.SPECULAR, model.find("specular")),
            (MapRole.OPACITY, model.find("transparent")),
            (MapRole.NORMAL, technique.find("extra/technique/bump")),
        ):
            image = self._image(element)
            if image is not None:
                look.maps[role] = replace(image, channel="a" if role is MapRole.OPACITY else "")
        sided = next((e.text for e in self._effect.iter("double_sided")), None)
        if sided is not None:
            look.double_sided = sided.strip() in ("1", "true")

    def _diffuse(self, model: Element) -> None:
        look, diffuse = self._look, model.find("diffuse")
        color = self._color(diffuse)
        if color is None and model.tag == "constant":
            color = self._color(model.find("emission"))
        image = self._image(diffuse)
        if image is not None:
            look.texture, look.placement = image.file, image.placement
            color = color or (1.0, 1.0, 1.0, 1.0)
        if color is not None:
            look.color = (*color[:3], self._opacity(model))

    def _opacity(self, model: Element) -> float:
        """By the rule of the specification; what would not be seen at all is taken for an exporter's mistake."""
        transparent, amount = model.find("transparent"), self._float(model.find("transparency"))
        mode = "A_ONE" if transparent is None else transparent.get("opaque", "A_ONE")
        color = self._color(transparent) or ((0.0, 0.0, 0.0, 1.0) if mode == "RGB_ZERO" else (1.0, 1.0, 1.0, 1.0))
        share = 1.0 if amount is None else amount
        if transparent is None and amount is None:
            return 1.0
        luminance = sum(weight * value for weight, value in zip(_LUMINANCE, color[:3], strict=True))
        opacity = {
            "A_ZERO": 1.0 - color[3] * share,
            "RGB_ZERO": 1.0 - luminance * share,
            "RGB_ONE": luminance * share,
        }.get(mode, color[3] * share)
        if not opacity > 0.0:
            self._document.note_unseen("A material that could not be seen at all was taken for opaque.")
            return 1.0
        return min(opacity, 1.0)

    # -- values --

    def _param(self, element: Element, tag: str) -> Element | None:
        """A value that stands here, or in a parameter."""
        found = element.find(tag)
        if found is None and (reference := element.find("param")) is not None:
            param = self._params.get(reference.get("ref", ""))
            found = None if param is None else param.find("float4" if tag == "color" else "float")
        return found

    def _color(self, element: Element | None) -> tuple[float, float, float, float] | None:
        found = None if element is None else self._param(element, "color")
        values = _numbers(found)
        if len(values) not in (3, 4):
            return None
        red, green, blue, *alpha = values
        return red, green, blue, alpha[0] if alpha else 1.0

    def _float(self, element: Element | None) -> float | None:
        found = None if element is None else self._param(element, "float")
        values = _numbers(found)
        return values[0] if len(values) == 1 else None

    # -- images --

    def _image(self, element: Element | None) -> Texture | None:
        """The image of a `<texture>`, through its sampler and surface, or straight by its id."""
        texture = None if element is None else element.find("texture")
        if texture is None:
            return None
        name = texture.get("texture", "")
        param = self._params.get(name)
        sampler = None if param is None else param.find("sampler2D")
        image_id, wrap = name, (Wrap.REPEAT, Wrap.REPEAT)
        if sampler is not None:
            wrap = (_wrap(sampler, "wrap_s"), _wrap(sampler, "wrap_t"))
            surface = self._params.get((sampler.findtext("source") or "").strip())
            if surface is not None:
                image_id = (surface.findtext("surface/init_from") or "").strip()
            elif (instance := sampler.find("instance_image")) is not None:
                image_id = instance.get("url", "").removeprefix("#")
        return self._file(image_id, wrap)

    def _file(self, image_id: str, wrap: tuple[Wrap, Wrap]) -> Texture | None:
        image = next((e for e in self._document.root.iterfind("library_images/image") if e.get("id") == image_id), None)
        if image is None:
            return None
        reference = (image.findtext("init_from/ref") or image.findtext("init_from") or "").strip()
        file = find_image(self._document.folder, reference)
        if not file:
            self._document.note_unseen(f"The image '{reference[:80]}' was not found.")
            return None
        return Texture(file=file, placement=Placement(wrap=wrap))


def _wrap(sampler: Element, tag: str) -> Wrap:
    return _WRAPS.get((sampler.findtext(tag) or "WRAP").strip(), Wrap.REPEAT)


def _numbers(element: Element | None) -> list[float]:
    if element is None or not element.text or len(element.text) > 1000:
        return []
    try:
        values = parse_floats(element.text.encode()).tolist()
    except ValueError:
        return []
    return values if all(math.isfinite(v) for v in values) else []
