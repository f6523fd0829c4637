"""Where the numbers of a step come from: the state's arrays, and parameters that are arrays or constants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kinema.model import Model
from kinema.trace import Value

from .limbs import find_limbs
from .maths import ZERO, Vector, add
from .settings import Settings
from .tree import Inertia, Tree, grow, link_inertia

Read = Callable[[str, int], Value]
"""The number in an item of an array: a symbol while a program is traced, a float in tests."""


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The numbers of one environment."""

    model: Model
    settings: Settings
    read: Read

    def array(self, name: str, count: int) -> list[Value]:
        """All items of an array."""
        return [self.read(name, i) for i in range(count)]

    @property
    def q(self) -> list[Value]:
        """Coordinates."""
        return self.array("qpos", self.model.n_qs)

    @property
    def v(self) -> list[Value]:
        """Velocities."""
        return self.array("vel", self.model.n_dofs)

    @property
    def gravity(self) -> Vector:
        """Of this environment [m/s2]."""
        return self.array("gravity", 3) if "gravity" in self.settings.per_env else self.model.gravity.tolist()

    def of_dofs(self, name: str) -> list[Value]:
        """A parameter of all degrees of freedom."""
        if name in self.settings.per_env:
            return self.array(name, self.model.n_dofs)
        return getattr(self.model.dofs, name).tolist()

    def tree(self) -> Tree:
        """The moving frames, with the masses of this environment."""
        shifted = self.settings.per_env & {"mass_shift", "com_shift"}
        tree = grow(self.model, {i: self._inertia(i) for i in range(self.model.n_links)} if shifted else None)
        if self.settings.roles > 1:
            tree.limbs = find_limbs(tree, self.settings.roles).role_of_frame
        return tree

    def mass(self, link: int) -> Value:
        """A link's mass [kg]."""
        own = float(self.model.links.inertial_mass[link])
        return own + self.read("mass_shift", link) if "mass_shift" in self.settings.per_env else own

    def center(self, link: int) -> Vector:
        """A link's centre of mass, in the link [m]."""
        return add(self.model.links.inertial_pos[link].tolist(), self._shift(link))

    def _shift(self, link: int) -> Vector:
        if "com_shift" not in self.settings.per_env:
            return ZERO
        return [self.read("com_shift", 3 * link + i) for i in range(3)]

    def _inertia(self, link: int) -> Inertia:
        return link_inertia(self.model, link, self.mass(link), self._shift(link))
