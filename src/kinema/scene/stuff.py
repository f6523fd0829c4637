"""What a thing that is added is made of: how it touches, what it weighs, its colour; and whether it touches at all."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinema.description import (
    Base,
    Geometry,
    Inertial,
    Link,
    PhysicsMaterial,
    Robot,
    Shape,
    VisualMaterial,
    World,
    geometry_mass,
)
from kinema.foundation import Array, KinemaError
from kinema.words import mjcf

from .arguments import amount, flag
from .batches import as_array
from .morphs import Morph

DENSITY = 1000.0
"""Of bodies that nobody says more about [kg/m3]: that of water, as MuJoCo has it."""


@dataclass(frozen=True, slots=True, eq=False)
class Stuff:
    """What the user says of it; None for what the file says, or the default."""

    friction: Any = None
    density: Any = None
    mass: Any = None
    material: PhysicsMaterial | None = None
    color: Any = None
    collision: bool | None = None

    def surface(self, known: PhysicsMaterial | None) -> PhysicsMaterial | None:
        """How a surface touches: what the user says of it, else what is known."""
        if self.material is not None and not isinstance(self.material, PhysicsMaterial):
            raise KinemaError(f"material: expected a kinema.description.PhysicsMaterial, not {self.material!r}")
        base = known if self.material is None else self.material
        if self.friction is None:
            return base
        given = as_array(self.friction, np.float64, "friction")
        if given.shape not in ((), (1,), (2,), (3,)) or not (np.isfinite(given) & (given >= 0.0)).all():
            raise KinemaError(
                "friction: expected the coefficient of sliding, or up to three: sliding, spinning [m], rolling [m], "
                f"not {self.friction!r}"
            )
        sliding, *rest = (float(x) for x in np.atleast_1d(given))
        words = dict(zip(("torsional_friction", "rolling_friction"), rest, strict=False))
        made = replace(base or PhysicsMaterial(), static_friction=sliding, dynamic_friction=sliding, **words)
        made.dynamic_friction2 = None
        made.attributes = {k: v for k, v in made.attributes.items() if k != mjcf.key(mjcf.FRICTION)}
        return made

    def on(self, shape: Shape) -> Shape:
        """A shape made of it."""
        look = shape.material
        if self.color is not None:
            look = VisualMaterial(name="color", color=_color(self.color))
        touches = shape.collision and (self.collision is None or flag(self.collision, "collision"))
        return replace(shape, surface=self.surface(shape.surface), material=look, collision=touches)

    @property
    def says_nothing(self) -> bool:
        """Whether everything is left as it is."""
        return all(x is None for x in (self.friction, self.material, self.color, self.collision))

    def weighed(self, geometry: Geometry) -> Inertial:
        """The mass of a body of this shape."""
        if self.mass is not None and self.density is not None:
            raise KinemaError("mass, density: either says what it weighs, not both")
        density = DENSITY
        if self.density is not None:
            density = amount(self.density, "density")
        elif self.material is not None and self.material.density is not None:
            density = self.material.density
        own = geometry_mass(geometry, 1.0)
        if own is None or own.mass <= 0.0:
            raise KinemaError("mass: this shape has no volume, and so no mass: fixed=True keeps it where it is")
        factor = density if self.mass is None else amount(self.mass, "mass") / own.mass
        return Inertial(own.mass * factor, own.center, own.inertia * factor)


def body_of(morph: Morph, stuff: Stuff, scale: Array, fixed: bool | None) -> Robot:
    """A robot of one link, which is the morph."""
    if not morph.moves and fixed is False:
        raise KinemaError(f"fixed: a {morph.kind} never moves")
    geometry = morph.geometry(scale)
    shape = stuff.on(Shape(name=morph.kind, geometry=geometry, pose=morph.pose))
    inertial = stuff.weighed(geometry) if morph.moves and not fixed else None
    link = Link(name=morph.kind, inertial=inertial, shapes=[shape])
    base = Base.FREE if morph.moves else Base.FIXED
    return Robot(name=morph.kind, links=[link], base=base, static=not morph.moves)


def remade(description: Robot | World, stuff: Stuff) -> Robot | World:
    """The same of other stuff; what says nothing stays itself."""
    for name in ("density", "mass"):
        if getattr(stuff, name) is not None:
            raise KinemaError(f"{name}: files and robots say what they weigh; this is for bodies such as km.Box")
    return description if stuff.says_nothing else with_shapes(description, stuff.on)


def with_shapes(description: Robot | World, change: Callable[[Shape], Shape]) -> Robot | World:
    """The same with other shapes; nothing of the one given changes."""
    result = copy.copy(description)
    if isinstance(result, World):
        result.shapes = [change(s) for s in result.shapes]
        result.robots = [_robot(r, change) for r in result.robots]
        return result
    return _robot(result, change)


def _robot(robot: Robot, change: Callable[[Shape], Shape]) -> Robot:
    result = copy.copy(robot)
    result.links = [replace(link, shapes=[change(s) for s in link.shapes]) for link in robot.links]
    return result


def _color(said: Any) -> tuple[float, float, float, float]:
    array = as_array(said, np.float64, "color")
    if array.shape not in ((3,), (4,)) or not ((array >= 0.0) & (array <= 1.0)).all():
        raise KinemaError(f"color: expected red, green, blue and perhaps alpha, each 0 to 1, not {said!r}")
    red, green, blue, alpha = (*(float(x) for x in array), 1.0)[:4]
    return red, green, blue, alpha
