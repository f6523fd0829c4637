"""Terrain as a world of its own, to be put into a scene or a file."""

from __future__ import annotations

from kinema import shapes

from .material import PhysicsMaterial
from .shape import HeightField, Shape
from .world import World


def world_of_terrain(terrain: shapes.Terrain, name: str = "terrain", surface: PhysicsMaterial | None = None) -> World:
    """A world that is nothing but terrain, about the origin; `surface` is how it touches what stands on it."""
    field = HeightField(heights=terrain.heights, size=terrain.size, base=terrain.base)
    return World(name=name, shapes=[Shape(name=name, geometry=field, surface=surface)])
