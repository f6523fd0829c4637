"""Occurrences and the bodies in them."""

from __future__ import annotations

from typing import Any

from .api import IDENTITY, attribute, items, matrix, native
from .assembly import Assembly, parent_path
from .frames import box_around
from .meshes import MeshFile, MeshFiles
from .physical import describe_physical

_COLOR = "adsk::core::ColorProperty"
_FAVOURITES = ("opaque_albedo", "surface_albedo", "metal_f0", "generic_diffuse", "color")
"""Parts of the ids of the properties that hold the main colour, the best first."""


class Parts:
    """Describes the root component and all occurrences."""

    def __init__(self, assembly: Assembly, meshes: MeshFiles, notes: list[str]) -> None:
        self.assembly = assembly
        self.meshes = meshes
        self.notes = notes
        self.physical: dict[tuple[str, str], Any] = {}

    def root(self) -> dict[str, Any]:
        """The root component's own bodies."""
        root = self.assembly.root
        own = items(root.bRepBodies) + items(attribute(root, "meshBodies"))
        bodies, box = self._bodies(root, own, list(IDENTITY))
        return {"name": root.name, "component": root.name, "physical": None, "box": box, "bodies": bodies}

    def occurrence(self, occurrence: Any) -> dict[str, Any]:
        """A component at one place of the assembly."""
        pose = matrix(occurrence.transform2)
        own = items(occurrence.bRepBodies) + items(attribute(occurrence, "meshBodies"))
        bodies, box = self._bodies(occurrence.component, own, pose)
        # the API counts the bodies of nested occurrences too, so that it helps only where there are none
        is_leaf = not items(occurrence.childOccurrences)
        physical = describe_physical(occurrence, "root", self.notes) if own and is_leaf else None
        return {
            "path": occurrence.fullPathName,
            "name": occurrence.name,
            "parent": parent_path(occurrence),
            "component": occurrence.component.name,
            "pose": pose,
            "grounded": bool(attribute(occurrence, "isGrounded", False)),
            "grounded_to_parent": bool(attribute(occurrence, "isGroundToParent", False)),
            "visible": bool(attribute(occurrence, "isLightBulbOn", True)),
            "physical": physical,
            "box": box,
            "bodies": bodies,
        }

    def _bodies(
        self, component: Any, bodies: list[Any], pose: list[float]
    ) -> tuple[list[dict[str, Any]], list[float] | None]:
        described, boxes = [], []
        for number, body in enumerate(bodies):
            mesh = self.meshes.write(component, number, native(body))
            if mesh is not None:
                boxes.append(box_around(mesh.low, mesh.high, pose))
            described.append(self._body(component, number, body, mesh))
        if not boxes:
            return described, None
        low = [min(b[i] for b in boxes) for i in range(3)]
        return described, low + [max(b[i] for b in boxes) for i in range(3, 6)]

    def _body(self, component: Any, number: int, body: Any, mesh: MeshFile | None) -> dict[str, Any]:
        return {
            "name": body.name,
            "visible": bool(attribute(body, "isLightBulbOn", True)),
            "color": main_color(attribute(body, "appearance")),
            "material": str(attribute(attribute(body, "material"), "name", "")),
            "physical": self._physical(component, number, native(body)),
            "mesh": None if mesh is None else mesh.describe(),
        }

    def _physical(self, component: Any, number: int, body: Any) -> dict[str, Any] | None:
        """A native body's mass, computed once for each component."""
        key = (str(component.id), f"{number} {body.name}")
        if key not in self.physical:
            solid = attribute(body, "isSolid", False)
            self.physical[key] = describe_physical(body, "component", self.notes) if solid else None
        return self.physical[key]


def main_color(appearance: Any) -> list[float] | None:
    """Red, green, blue and opacity, each 0 to 1; None where the appearance has no plain colour."""
    found = []
    for number, entry in enumerate(items(attribute(appearance, "appearanceProperties"))):
        color = attribute(entry, "value") if attribute(entry, "objectType") == _COLOR else None
        if color is None:
            continue  # textured
        name = str(attribute(entry, "id", ""))
        rank = next((i for i, part in enumerate(_FAVOURITES) if part in name), len(_FAVOURITES))
        found.append((rank, number, color))
    if not found:
        return None
    color = min(found, key=lambda entry: entry[:2])[2]
    return [color.red / 255, color.green / 255, color.blue / 255, color.opacity / 255]
