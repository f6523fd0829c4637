"""The files that a description was made of, so that they are not written over by accident."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from kinema.description import HeightField, Mesh, Node, Robot, Shape, World
from kinema.words import usd


def sources_of(described: Robot | World) -> frozenset[Path]:
    """The file itself, those that it includes, its meshes and its textures."""
    return frozenset(Path(name).resolve() for name in _names(described) if name)


def _names(described: Robot | World) -> Iterator[str]:
    robots = described.robots if isinstance(described, World) else [described]
    scenery = described.shapes if isinstance(described, World) else []
    yield described.source
    if described.format == usd.FORMAT:
        yield from _layers(described.source)
    nodes: list[Node] = [described, *robots]
    for home in (described, *robots):
        nodes += [*home.actuators, *home.sensors, *home.frames]
        yield from (extra.origin.file for extra in home.extras)
    for robot in robots:
        nodes += [*robot.links, *robot.joints]
    yield from (node.origin.file for node in nodes)
    yield from _of_shapes([*scenery, *(shape for robot in robots for link in robot.links for shape in link.shapes)])


def _of_shapes(shapes: Iterable[Shape]) -> Iterator[str]:
    for shape in shapes:
        yield shape.origin.file
        if isinstance(shape.geometry, Mesh | HeightField):
            yield shape.geometry.path
        if shape.material is not None:
            yield shape.material.texture


def _layers(stage: str) -> Iterator[str]:
    """The layers that a stage loads, and those that these load."""
    try:
        from pxr import Sdf, Tf
    except ImportError:
        return
    waiting, seen = [stage], {stage}
    while waiting:
        name = waiting.pop()
        yield name
        try:
            layer = Sdf.Layer.FindOrOpen(name)
            loaded = [] if layer is None else [layer.ComputeAbsolutePath(x) for x in layer.GetExternalReferences() if x]
        except Tf.ErrorException:
            continue
        waiting += [x for x in loaded if x not in seen]
        seen.update(loaded)
