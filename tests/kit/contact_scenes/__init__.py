"""Scenes of things that touch, each with what is measured of it and its bound: closed forms, stacks, grips, terrain.

`SCENES` has them by name, with a letter of the collection of scenes that they come from (docs/contact-accuracy.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from .balls import batches, rest_depth, spin_and_roll
from .blocks import dry_hinge, isotropy, slopes
from .grips import HARD_RATIO, beside_a_press, pinch, wall
from .ground import nut_and_bolt, on_terrain
from .measured import Measured as Measured, scene_of as scene_of
from .solver import settled, ways_to_solve
from .stacks import boxes_on_boxes, card_house, cubes, heap_at_rest, pyramid, tall_tower, tower

SINGLE, DOUBLE, BOTH = ("single",), ("double",), ("single", "double")


@dataclass(frozen=True, slots=True)
class SceneCase:
    """A scene, run in some precisions."""

    group: str
    run: Callable[[str], list[Measured]]
    precisions: tuple[str, ...] = BOTH
    cheap: bool = False
    """Whether the test suite runs it, in single precision."""


SCENES = {
    "ball at rest": SceneCase("D", partial(rest_depth, seconds=50.0)),
    "slopes": SceneCase("E", slopes, cheap=True),
    "directions": SceneCase("E", isotropy),
    "spin and roll": SceneCase("E", spin_and_roll, cheap=True),
    "wall": SceneCase("E", wall),
    "wall, impratio 10,000": SceneCase("E", partial(wall, ratio=HARD_RATIO), DOUBLE),
    "wall beside a press": SceneCase("E", beside_a_press, SINGLE),
    "pinch": SceneCase("E", pinch),
    "dry hinge": SceneCase("E", dry_hinge, SINGLE),
    "ways to solve": SceneCase("G", ways_to_solve, ("double",)),
    "settled": SceneCase("G", settled),
    "tower": SceneCase("H", tower),
    "tower of 30": SceneCase("H", tall_tower),
    "heap at rest": SceneCase("H", heap_at_rest),
    "boxes on boxes": SceneCase("H", boxes_on_boxes),
    "pyramid": SceneCase("H", pyramid),
    "house of cards": SceneCase("H", card_house),
    "125 cubes": SceneCase("H", cubes, SINGLE),
    "batches": SceneCase("K", batches, cheap=True),
    "terrain": SceneCase("N", on_terrain, SINGLE),
    "nut and bolt": SceneCase("N", nut_and_bolt, SINGLE),
    "nut and bolt with pyramids": SceneCase("N", partial(nut_and_bolt, cone="pyramidal"), SINGLE),
}
