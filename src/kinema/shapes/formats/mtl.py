"""Material libraries of OBJ files (.mtl), with the extensions for physically based materials.

`Kd`, `d` and `Ke` are colour, opacity and emission; `Pr`, `Pm`, `Pc` and `Pcr` roughness, metalness and clearcoat.
Where only Phong's model is there, `Ns` gives the roughness (`look.roughness_of_exponent`) and the mean of `Ks` the
specular.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kinema.shapes.images import find_image
from kinema.shapes.look import Look, MapRole, Placement, Texture, Wrap, roughness_of_exponent

MAX_LIBRARY_BYTES = 1 << 24
_MAX_MATERIALS = 1 << 16
_MAPS = {
    "map_d": MapRole.OPACITY,
    "map_pm": MapRole.METALLIC,
    "map_pr": MapRole.ROUGHNESS,
    "map_ke": MapRole.EMISSION,
    "map_ks": MapRole.SPECULAR,
    "map_pc": MapRole.CLEARCOAT,
    "map_bump": MapRole.BUMP,
    "bump": MapRole.BUMP,
    "norm": MapRole.NORMAL,
    "map_ao": MapRole.OCCLUSION,
    "map_kn": MapRole.NORMAL,
}
_OPTION_WORDS = {"-s": 3, "-o": 3, "-t": 3, "-mm": 2, "-bm": 1, "-clamp": 1, "-imfchan": 1, "-texres": 1}
_OPTION_WORDS |= {"-blendu": 1, "-blendv": 1, "-boost": 1, "-cc": 1, "-type": 1}
_UNSEEN = {"newmtl", "illum", "ka", "map_ka", "ni", "tf", "sharpness", "aniso", "anisor", "ps", "map_ps", "map_ns"}
"""Known words without a counterpart here."""


def read_mtl(data: bytes, folder: Path | None, note: Callable[[str], object]) -> dict[str, Look]:
    """Name -> material; images are looked for from the folder."""
    found: dict[str, Look] = {}
    exponents: dict[str, float] = {}
    material: Look | None = None
    for line in data.decode("utf-8", "replace").replace("\\\n", " ").splitlines():
        keyword, _, rest = line.strip().partition(" ")
        keyword, rest = keyword.lower(), rest.strip()
        if keyword == "newmtl" and len(found) < _MAX_MATERIALS:
            material = found.setdefault(rest, Look(name=rest))
        elif material is not None and not keyword.startswith("#"):
            if keyword == "ns" and (values := _numbers(rest)):
                exponents[material.name] = values[0]
            elif keyword == "map_kd" or keyword in _MAPS:
                _image(material, keyword, rest, folder, note)
            elif keyword not in _UNSEEN:
                _value(material, keyword, _numbers(rest))
    for name, exponent in exponents.items():
        if found[name].roughness is None:
            found[name].roughness = roughness_of_exponent(exponent)
    return found


def _numbers(text: str) -> list[float]:
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        return []
    return values if all(math.isfinite(v) for v in values) else []


def _value(material: Look, keyword: str, values: list[float]) -> None:
    if not values:
        return
    color = material.color or (1.0, 1.0, 1.0, 1.0)
    red, green, blue = values[:3] if len(values) >= 3 else (values[0],) * 3
    match keyword:
        case "kd":
            material.color = (red, green, blue, color[3])
        case "d":
            material.color = (*color[:3], values[0])
        case "tr":
            material.color = (*color[:3], 1.0 - values[0])
        case "ke" if any(values):
            material.emission = (red, green, blue)
        case "ks":
            material.specular = (red + green + blue) / 3
        case "pr":
            material.roughness = values[0]
        case "pm":
            material.metallic = values[0]
        case "pc":
            material.clearcoat = values[0]
        case "pcr":
            material.clearcoat_roughness = values[0]


def _image(material: Look, keyword: str, rest: str, folder: Path | None, note: Callable[[str], object]) -> None:
    placement, strength, channel, name = _options(rest)
    file = find_image(folder, name)
    if not file:
        note(f"The image '{name[:80]}' of the material '{material.name[:80]}' was not found.")
        return
    if keyword == "map_kd":
        material.texture, material.placement = file, placement
        return
    role = _MAPS[keyword]
    material.maps[role] = Texture(file=file, channel=channel, strength=strength, placement=placement)


def _options(text: str) -> tuple[Placement, float, str, str]:
    """How an image lies, its strength, its channel and its name."""
    words = text.split()
    placement, strength, channel, at = Placement(), 1.0, "", 0
    while at < len(words) and words[at].lower() in _OPTION_WORDS:
        option = words[at].lower()
        taken: list[str] = []
        while len(taken) < _OPTION_WORDS[option] and at + 1 + len(taken) < len(words):
            word = words[at + 1 + len(taken)]
            if option in ("-s", "-o", "-t", "-mm", "-bm") and not _numbers(word):
                break  # the second and third number may be left out
            taken.append(word)
        at += 1 + len(taken)
        values = _numbers(" ".join(taken))
        if option == "-s" and values:
            placement = replace(placement, scale=(values[0], values[1] if len(values) > 1 else 1.0))
        elif option == "-o" and values:
            placement = replace(placement, offset=(values[0], values[1] if len(values) > 1 else 0.0))
        elif option == "-clamp" and taken and taken[0].lower() == "on":
            placement = replace(placement, wrap=(Wrap.CLAMP, Wrap.CLAMP))
        elif option == "-bm" and values:
            strength = values[0]
        elif option == "-imfchan" and taken:
            channel = taken[0].lower() if taken[0].lower() in ("r", "g", "b") else {"m": "a"}.get(taken[0].lower(), "")
    return placement, strength, channel, " ".join(words[at:])
