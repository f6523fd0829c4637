"""What is seen of a robot: every triangle of its visual meshes with all that is on it, however it was said.

Two descriptions look the same if these are: the same triangles in the same places, with the same normals, the same
point of the same image at each corner, and materials that say the same. Which shape, file or material object says it,
and in which order, does not count.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from kinema.description import Mesh, Robot, Shape, World, effective_appearance, load_textured_mesh
from kinema.geometry import (
    Appearance,
    CornerAttribute,
    GeometryError,
    MapRole,
    MeshError,
    PbrMaterial,
    TextureMapping,
    apply_affine,
    read_image,
    read_image_pixels,
)
from kinema.write import LossReport

TOLERANCE = 2e-6
_NEAR = 1e-4
"""How far from each other, against the size of a link, two triangles are the same."""
_CANDIDATES = 4
"""Of how many triangles in one place one may be the same."""
_NUMBERS = (
    *("emission", "specular", "metallic", "roughness", "reflectance"),
    *("clearcoat", "clearcoat_roughness", "opacity_threshold", "double_sided"),
)
_OF_COLORS = (MapRole.NORMAL, MapRole.EMISSION, MapRole.SPECULAR, MapRole.OPACITY)
"""Images of which more than one channel counts, or alpha where they have it."""
WORDS = {
    "triangles": r"the shape|the mesh|its mesh|the link|the scenery|never seen|part of its mesh|that it is a",
    "normals": r"normals|its mesh|the shape",
    "coordinates": r"texture coordinates|its mesh|how (a|its) texture lies|placement|the texture",
    "colors": r"colours? of|opacity of its vertices",
    "color": r"colour|the material|settings",
    "texture": r"texture",
    "wrap": r"edges|how (a|its) texture lies|placement|texture",
    "emission": r"emission|light it gives off",
    "specular": r"specular",
    "metallic": r"metallic",
    "roughness": r"roughness",
    "reflectance": r"reflectance",
    "clearcoat": r"clearcoat",
    "clearcoat_roughness": r"clearcoat",
    "opacity_threshold": r"opacity",
    "double_sided": r"both sides|double",
}
"""What differs -> the words by which a loss report says so."""


@dataclass(slots=True)
class Seen:
    """The triangles of one link with the same material."""

    look: dict[str, Any]
    corners: np.ndarray
    """Shape (m, 9), in the link's frame [m]."""
    layers: dict[str, np.ndarray | None] = field(default_factory=dict)
    """Normals (m, 9), coordinates (m, 6) and colours (m, 12)."""


def seen(described: Robot | World) -> dict[str, list[Seen]]:
    """What is seen of each link."""
    links = [link for robot in getattr(described, "robots", [described]) for link in robot.links]
    found = {link.name: [s for shape in link.shapes for s in _of_shape(shape)] for link in links}
    return {name: parts for name, parts in found.items() if parts}


def _of_shape(shape: Shape) -> Iterator[Seen]:
    if not shape.visual or not isinstance(shape.geometry, Mesh):
        return
    try:
        dressed = load_textured_mesh(shape.geometry)
    except GeometryError:
        return
    if dressed is None:
        return
    linear = shape.pose.rotation @ np.diag(shape.geometry.scale)
    mesh = apply_affine(dressed.mesh, linear, shape.pose.position)
    appearance = effective_appearance(shape, dressed).transformed(linear)
    for look, faces in appearance.faces_by_material(mesh.n_faces):
        part = appearance.select_faces(faces)
        yield Seen(_facts(look, part), mesh.triangles()[faces].reshape(-1, 9), _layers(look, part, len(faces)))


def _layers(look: PbrMaterial | None, appearance: Appearance, n_faces: int) -> dict[str, np.ndarray | None]:
    def flat(layer: CornerAttribute | None) -> np.ndarray | None:
        return None if layer is None else layer.expanded().reshape(len(layer.indices), -1)

    placement = TextureMapping() if look is None or not look.texture else look.texture_mapping
    sets = appearance.texture_coordinates
    chosen = sets[min(placement.texcoord_set, len(sets) - 1)] if sets else None
    if chosen is not None:
        cosine, sine = math.cos(placement.rotation), math.sin(placement.rotation)
        turn = np.array([[cosine, -sine], [sine, cosine]])
        chosen = CornerAttribute((chosen.values * placement.scale) @ turn.T + placement.offset, chosen.indices)
    colors = flat(appearance.colors)
    if colors is None and look is not None and look.color is not None:  # faces of one colour may be said either way
        colors = np.tile(look.color, (n_faces, 3))
    return {"normals": flat(appearance.normals), "coordinates": flat(chosen), "colors": colors}


def _facts(look: PbrMaterial | None, appearance: Appearance) -> dict[str, Any]:
    """What a material says; a name alone says nothing, and an image is its content."""
    if look is None or not look.has_properties:
        return {}
    facts: dict[str, Any] = {name: getattr(look, name) for name in _NUMBERS if getattr(look, name) is not None}
    color = look.color or ((1.0, 1.0, 1.0, 1.0) if look.texture else None)
    if color is not None:
        facts["color"] = color
    if facts.get("double_sided") is False:
        del facts["double_sided"]
    if look.texture:
        facts["texture"], facts["wrap"] = _content(look.texture), tuple(str(w) for w in look.texture_mapping.wrap)
    for role, image in look.maps.items():
        content = _content(image.file) if role in _OF_COLORS else _channel(image.file, image.channel or "r")
        facts[f"{role} map"] = (content, image.channel if role in _OF_COLORS else "", round(image.strength, 6))
    return facts


def _channel(image: str, channel: str) -> str:
    """Of which image and channel numbers are taken does not count, but which they are."""
    try:
        pixels = read_image_pixels(image)[:, :, "rgba".index(channel)]
    except MeshError:
        return _content(image)
    return hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()[:12]


def _content(image: str) -> str:
    try:
        return hashlib.sha256(read_image(image)[0]).hexdigest()[:12]
    except MeshError:
        return "missing"


# -- what differs ------------------------------------------------------------------------------------------------------


def differences(before: dict[str, list[Seen]], after: dict[str, list[Seen]]) -> set[str]:
    """Words for what is not the same."""
    return {what for link in before for what in _of_link(before[link], after.get(link, []))}


def _of_link(before: list[Seen], after: list[Seen]) -> Iterator[str]:
    if not after:
        yield "triangles"
        return
    scale = max(*(float(np.abs(part.corners).max(initial=0.0)) for part in before), 1e-3)
    places = np.concatenate([_places(part, scale) for part in after])
    owners = np.concatenate([np.full(len(part.corners), number) for number, part in enumerate(after)])
    rows = np.concatenate([np.arange(len(part.corners)) for part in after])
    tree = KDTree(places)
    for part in before:
        distances, nearest = _met(tree, _places(part, scale), owners, _agreeing(part, after), _NEAR * scale)
        if (distances > _NEAR * scale).any():
            yield "triangles"
        found = np.flatnonzero(distances <= _NEAR * scale)
        for number in np.unique(owners[nearest[found]]).tolist():
            mine = found[owners[nearest[found]] == number]
            yield from _of_parts(part, mine, after[number], rows[nearest[mine]])


def _agreeing(part: Seen, others: list[Seen]) -> np.ndarray:
    """Which of the others have the same material and the same layers."""
    own = {name for name, layer in part.layers.items() if layer is not None}
    return np.array(
        [
            not any(_of_looks(part.look, other.look))
            and own <= {name for name, layer in other.layers.items() if layer is not None}
            for other in others
        ]
    )


def _met(
    tree: KDTree, places: np.ndarray, owners: np.ndarray, agreeing: np.ndarray, near: float
) -> tuple[np.ndarray, np.ndarray]:
    """The triangle that each is met by: of several in one place, as where two parts touch, one that agrees."""
    distances, nearest = tree.query(places, k=min(_CANDIDATES, tree.n))
    distances, nearest = (np.asarray(x).reshape(len(places), -1) for x in (distances, nearest))
    is_good = (distances <= near) & agreeing[owners[nearest]]
    chosen = np.where(is_good.any(axis=1), is_good.argmax(axis=1), 0)
    rows = np.arange(len(places))
    return distances[rows, chosen], nearest[rows, chosen]


def _places(part: Seen, scale: float) -> np.ndarray:
    """Triangles as points: their corners in an order that does not depend on which comes first, and how they face."""
    corners = part.corners.reshape(-1, 3, 3)
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    lengths = np.linalg.norm(across, axis=1, keepdims=True)
    facing = across / np.where(lengths > 1e-12 * scale**2, lengths, np.inf)
    # of slivers it cannot be told, and two that lie in one place are looked at as one
    return np.column_stack([np.sort(corners, axis=1).reshape(-1, 9), 1e-2 * scale * np.round(facing, 1)])


def _of_parts(part: Seen, mine: np.ndarray, other: Seen, theirs: np.ndarray) -> Iterator[str]:
    """What differs between triangles in the same places."""
    yield from _of_looks(part.look, other.look)
    for name, layer in part.layers.items():
        found = other.layers.get(name)
        is_used = {"coordinates": "texture" in part.look, "colors": "color" not in part.look}.get(name, True)
        if layer is None or not is_used:
            continue
        if found is None or _most_differ(layer[mine], found[theirs]):
            yield name


def _most_differ(one: np.ndarray, two: np.ndarray) -> bool:
    """Whether more than a few in a thousand differ: of triangles that lie upon each other the wrong one may be met."""
    width = one.shape[1] // 3
    rolled = [two.reshape(-1, 3, width)[:, np.roll((0, 1, 2), k)].reshape(len(two), -1) for k in range(3)]
    off = np.min([np.abs(one - other).max(axis=1) for other in rolled], axis=0)
    return bool(np.count_nonzero(off > 200 * TOLERANCE) > len(one) // 200)


def _of_looks(one: dict[str, Any], two: dict[str, Any]) -> Iterator[str]:
    for name, value in one.items():
        if name not in two:
            yield name
        elif isinstance(value, str | bool) or isinstance(value[0] if isinstance(value, tuple) else 0.0, str):
            if value != two[name]:
                yield name
        elif not np.allclose(value, two[name], rtol=0.0, atol=50 * TOLERANCE):
            yield name


def unexplained(what: Iterable[str], *reports: LossReport) -> set[str]:
    """Those differences that no report speaks of."""
    said = [str(loss) for report in reports for loss in report]
    return {name for name in what if not any(re.search(_words(name), line) for line in said)}


def _words(name: str) -> str:
    return WORDS.get(name) or rf"{name}|{name.removesuffix(' map')}|the texture"
