"""What feeds the inputs of shaders: values, images, and other shaders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.shapes import IMAGE_SUFFIXES
from kinema.words import usd

from . import pxr
from .gf_values import floats
from .layers import beside, place_of
from .stage_index import StageIndex


class ShaderInputs:
    """The inputs of a material's surface."""

    def __init__(self, index: StageIndex, material: pxr.Prim, shader: pxr.Prim) -> None:
        self.index = index
        self.material = material
        self.shader = shader
        self._said = index.values.facts(shader).authored

    def says(self, name: str) -> bool:
        """Whether the surface says anything of an input."""
        return usd.input_of(name) in self._said

    def source(self, shader: pxr.Prim, name: str) -> tuple[pxr.Prim | None, str, Any]:
        """What feeds an input: a shader and its output, or a value."""
        if shader is self.shader and not self.says(name):
            return None, "", None
        given = shader.GetAttribute(usd.input_of(name))
        if not given:
            return None, "", None
        if not given.HasAuthoredConnections():  # most have none, and following them takes long
            return None, "", self.exact(given.Get(self.index.time))
        producing = pxr.UsdShade.Input(given).GetValueProducingAttributes()
        if not producing:
            return None, "", None
        attribute = producing[0]
        if attribute.GetName().startswith(usd.output_of("")):
            prim = attribute.GetPrim()
            feeding = prim if prim.IsA(pxr.UsdShade.Shader) else None
            return feeding, attribute.GetName().removeprefix(usd.output_of("")), None
        return None, "", self.exact(attribute.Get(self.index.time))

    def exact(self, value: Any) -> Any:
        """In a stage of Kinema's, numbers in single precision stand for the shortest decimals that round to them."""
        stamp = self.index.values.stamp
        if stamp is None or not stamp.decimals:
            return value
        if isinstance(value, float):
            return float(str(np.float32(value)))
        if isinstance(value, pxr.Gf.Vec2f | pxr.Gf.Vec3f | pxr.Gf.Vec4f):
            return tuple(float(str(np.float32(v))) for v in floats(value))
        return value

    def value(self, shader: pxr.Prim, name: str) -> Any:
        """The value of an input; None where it has none, or another shader makes it."""
        return self.source(shader, name)[2]

    def number(self, name: str) -> float | None:
        """A number that the surface is given."""
        value = self.value(self.shader, name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        return float(value) if is_number else None

    def vector(self, name: str) -> tuple[float, float, float] | None:
        """Three numbers that the surface is given."""
        numbers = plain_numbers(self.value(self.shader, name))
        return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None

    def image_of(self, shader: pxr.Prim, name: str) -> str:
        """The image that an input of a shader names, if it may be read."""
        given = shader.GetAttribute(usd.input_of(name))
        return self.asset(pxr.UsdShade.Input(given).GetValueProducingAttributes() if given else [])

    def asset(self, producing: Sequence[Any]) -> str:
        """The image that an attribute names, if it may be read."""
        asset: Any = producing[0].Get(self.index.time) if producing else None
        if not isinstance(asset, pxr.Sdf.AssetPath) or not asset.path:
            return ""
        said_by = producing[0].GetPropertyStack()
        path = beside(place_of(said_by[0].layer), str(asset.path)) if said_by else str(asset.path)
        return allowed_image(self.index, path, self.material)


def surface_shader(index: StageIndex, material: pxr.Prim, context: str, output: str) -> pxr.Prim | None:
    """What makes a material's surface, for everybody or for a context; None where nothing does."""
    connected = material.GetAttribute(output).GetConnections()
    if len(connected) == 1:  # most lead straight to a shader, and OpenUSD takes its time to find that out
        prim = index.stage.GetPrimAtPath(connected[0].GetPrimPath())
        name = connected[0].name
        facts = index.values.facts(prim) if prim and name.startswith(usd.output_of("")) else None
        if facts is not None and facts.kind.type == usd.SHADER and name in facts.authored:
            return facts.prim
    found = pxr.UsdShade.Material(material).ComputeSurfaceSource(context)[0]
    return found.GetPrim() if found else None


def kind_of_shader(shader: pxr.Prim) -> str:
    """What a shader says that it is; nothing where another file makes it."""
    return str(shader.GetAttribute(usd.SHADER_ID).Get() or "")


def allowed_image(index: StageIndex, path: str, owner: pxr.Prim) -> str:
    """The file of an image that a stage names, if it may be read; else nothing, and a warning."""
    outer, inner = pxr.Ar.SplitPackageRelativePathOuter(path) if pxr.Ar.IsPackageRelativePath(path) else (path, "")
    name = inner or outer
    if not name.lower().endswith(IMAGE_SUFFIXES):
        found, reason = None, "it is no image"
    else:
        resolved = index.resolve.resolve(outer, index.file)
        found, reason = resolved.path, resolved.reason
    if found is None:
        message = f"the texture {path!r} of {owner.GetName()!r} was not found: {reason}"
        index.diagnostics.warning("usd.missing-texture", message, origin=index.origin(owner))
        return ""
    return f"{found}[{inner}]" if inner else str(found)


def plain_numbers(value: Any) -> list[float]:
    """The finite numbers of a value; none where it is something else."""
    if value is None or isinstance(value, str | bool):
        return []
    try:
        numbers = floats(value) if hasattr(value, "__len__") else [float(value)]
        return numbers if all(math.isfinite(v) for v in numbers) else []
    except (TypeError, ValueError):
        return []


def plain_pair(value: Any, default: tuple[float, float]) -> tuple[float, float]:
    """Two finite numbers; the default where a value is something else."""
    numbers = plain_numbers(value)
    return (numbers[0], numbers[1]) if len(numbers) == 2 else default
