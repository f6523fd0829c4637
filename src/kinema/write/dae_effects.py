"""Materials of a COLLADA file: an effect of Phong's model for each."""

from __future__ import annotations

from collections.abc import Callable

from kinema.shapes import Look, MapRole, Placement, Wrap, exponent_of_roughness

from .text import Element, number, numbers
from .texture_placement import lies_plainly
from .textures import Losses, NoImage

_WRAPS = {Wrap.REPEAT: "WRAP", Wrap.CLAMP: "CLAMP", Wrap.MIRROR: "MIRROR", Wrap.BLACK: "BORDER"}
_NO_WORD = "COLLADA has no word for it"
_UNSAID = (
    ("its metallic share", "metallic"),
    ("its reflectance", "reflectance"),
    ("its clearcoat", "clearcoat"),
    ("the roughness of its clearcoat", "clearcoat_roughness"),
    ("from which opacity on it is there", "opacity_threshold"),
)
_SAID_MAPS = (MapRole.EMISSION, MapRole.SPECULAR, MapRole.OPACITY, MapRole.NORMAL)


class DaeEffects:
    """The images, effects and materials of one file."""

    def __init__(self, place: Callable[[str], str], losses: Losses) -> None:
        self._place = place
        self._losses = losses
        self._images = Element("library_images")
        self._effects = Element("library_effects")
        self._materials = Element("library_materials")
        self._known: dict[int, str] = {}
        self._files: dict[str, str] = {}

    def libraries(self) -> list[Element]:
        """Those that have something in them."""
        return [library for library in (self._images, self._effects, self._materials) if library.children]

    def add(self, look: Look | None) -> str:
        """The symbol of a material, which is its id too; empty for faces without one."""
        if look is None:
            return ""
        if id(look) not in self._known:
            symbol = self._known[id(look)] = f"material_{len(self._known)}"
            effect = self._effects.child("effect", id=f"{symbol}_effect")
            self._fill(effect.child("profile_COMMON"), look)
            if look.double_sided is not None:
                extra = effect.child("extra").child("technique", profile="GOOGLEEARTH")
                extra.child("double_sided", "1" if look.double_sided else "0")
            made = self._materials.child("material", id=symbol, name=look.name or symbol)
            made.child("instance_effect", url=f"#{symbol}_effect")
        return self._known[id(look)]

    def _lose(self, look: Look, what: str, why: str = _NO_WORD) -> None:
        self._losses.append((look.name, what, why))

    def _fill(self, profile: Element, look: Look) -> None:
        technique = Element("technique", {"sid": "common"})
        model = technique.child("phong")
        self._emission(profile, model, look)
        self._diffuse(profile, model, look)
        self._highlight(profile, model, look)
        self._transparent(profile, model, look)
        normal = look.maps.get(MapRole.NORMAL)
        if normal is not None:
            bump = Element("bump", {"bumptype": "NORMALMAP"})
            if self._texture(profile, bump, look, normal.file, normal.placement, "its normal map"):
                technique.child("extra").child("technique", profile="FCOLLADA").children.append(bump)
        for role, texture in look.maps.items():
            if role not in _SAID_MAPS:
                self._lose(look, f"its {role} map")
            elif texture.strength != 1.0:
                self._lose(look, f"the strength of its {role} map")
        for words, field in _UNSAID:
            if getattr(look, field) is not None:
                self._lose(look, words)
        profile.children.append(technique)

    def _emission(self, profile: Element, model: Element, look: Look) -> None:
        image = look.maps.get(MapRole.EMISSION)
        if image is not None:
            element = Element("emission")
            if self._texture(profile, element, look, image.file, image.placement, "its emission map"):
                model.children.append(element)
            if look.emission is not None:
                self._lose(look, "its emission beside the map of it", "COLLADA has one or the other")
        elif look.emission is not None:
            model.child("emission").child("color", numbers((*look.emission, 1.0)))

    def _diffuse(self, profile: Element, model: Element, look: Look) -> None:
        element = Element("diffuse")
        if look.texture and self._texture(profile, element, look, look.texture, look.placement, "its texture"):
            if look.color is not None and look.color[:3] != (1.0, 1.0, 1.0):
                self._lose(look, "the colour that its texture is multiplied by", "COLLADA has one or the other")
        elif look.color is not None:
            element.child("color", numbers((*look.color[:3], 1.0)))
        if element.children:
            model.children.append(element)

    def _highlight(self, profile: Element, model: Element, look: Look) -> None:
        image = look.maps.get(MapRole.SPECULAR)
        element = Element("specular")
        if image is not None and self._texture(profile, element, look, image.file, image.placement, "its specular map"):
            if look.specular is not None:
                self._lose(look, "its specular share beside the map of it", "COLLADA has one or the other")
        elif look.specular is not None:
            element.child("color", numbers((*(look.specular,) * 3, 1.0)))
        if element.children:
            model.children.append(element)
        if look.roughness is not None:
            exponent = exponent_of_roughness(look.roughness)
            model.child("shininess").child("float", number(round(exponent, 6)))

    def _transparent(self, profile: Element, model: Element, look: Look) -> None:
        image = look.maps.get(MapRole.OPACITY)
        alpha = 1.0 if look.color is None else look.color[3]
        if image is None and alpha == 1.0:
            return
        element = Element("transparent", {"opaque": "A_ONE"})
        if image is None or not self._texture(profile, element, look, image.file, image.placement, "its opacity map"):
            element.child("color", "1 1 1 1")
        elif image.channel not in ("", "a"):
            self._lose(look, "which channel its opacity map is", "COLLADA takes the alpha of its image")
        model.children.append(element)
        model.child("transparency").child("float", number(alpha))

    def _texture(
        self, profile: Element, element: Element, look: Look, file: str, placement: Placement, what: str
    ) -> bool:
        """Let an element have an image; whether there is one."""
        try:
            reference = self._place(file)
        except NoImage as error:
            self._lose(look, what, str(error))
            return False
        if reference not in self._files:
            self._files[reference] = f"image_{len(self._files)}"
            self._images.child("image", id=self._files[reference]).child("init_from", reference)
        wraps = [_WRAPS[side] for side in placement.wrap]
        name = "_".join([self._files[reference], *map(str.lower, wraps)])
        if not any(isinstance(e, Element) and e.attributes.get("sid") == name for e in profile.children):
            surface = profile.child("newparam", sid=f"{name}_surface").child("surface", type="2D")
            surface.child("init_from", self._files[reference])
            sampler = profile.child("newparam", sid=name).child("sampler2D")
            sampler.child("source", f"{name}_surface")
            for tag, word in zip(("wrap_s", "wrap_t"), wraps, strict=True):
                sampler.child(tag, word)
        element.child("texture", texture=name, texcoord="UV")
        if not lies_plainly(placement):
            self._lose(look, "how a texture lies (its scale, its turn, or its set of coordinates)")
        return True
