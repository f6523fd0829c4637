"""Going through a robot: from the world to the tips, from the tips to the world, or each part by itself.

What is done to a part is a pure function of that part; how the parts are gone through is a driver's business.
`straight.py` goes through them in Python, one after the other: on floats that computes, on symbols it leaves a straight
line of code. `lower/tables.py` traces each function once and makes loops over tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kinema.model import Model
from kinema.trace import Value

from ..settings import Settings
from .maths import Vector
from .tree import Forest, Link, Node, Ref

R = TypeVar("R")
Part = Node | Link


class Quantity(ABC, Generic[R]):
    """Something that parts of a robot have: a record of scalars each."""

    @abstractmethod
    def __getitem__(self, ref: Ref) -> R: ...

    @abstractmethod
    def put(self, ref: Ref, record: R) -> None:
        """What a part has from now on."""

    @abstractmethod
    def add(self, ref: Ref, more: R) -> None:
        """Add to what a part has."""


class Sweeps(ABC):
    """The arrays of one environment, and ways through the parts of its robots."""

    model: Model
    settings: Settings

    # arrays

    @abstractmethod
    def read(self, array: str, item: int = 0) -> Value:
        """A number of the environment as a whole, such as gravity."""

    @abstractmethod
    def of(self, array: str, part: Part) -> list[Value]:
        """The numbers of an array that belong to a part: inputs, or constants where the model's are folded in."""

    @abstractmethod
    def write(self, array: str, part: Part | None, values: Sequence[Value]) -> None:
        """Store the numbers of an array that belong to a part, or to the environment as a whole."""

    @property
    def gravity(self) -> Vector:
        """In the world [m/s2]."""
        return [self.read("gravity", i) for i in range(3)]

    @property
    def dt(self) -> Value:
        """The time of a step [s]."""
        return self.read("dt")

    # ways through

    @abstractmethod
    def quantity(self, name: str) -> Quantity[Any]:
        """Something that no part has yet."""

    @abstractmethod
    def each_frame(
        self,
        name: str,
        body: Callable[[Node], None],
        only: Sequence[int] | None = None,
        beside: int | None = None,
    ) -> None:
        """Each moving frame by itself, or only some, parents first; a link may be looked at beside each."""

    @abstractmethod
    def each_link(self, name: str, body: Callable[[Link], None]) -> None:
        """Each link by itself."""

    @abstractmethod
    def outward(self, name: str, at_world: R, body: Callable[[Node, R], R]) -> Quantity[R]:
        """Each frame from what its parent has."""

    @abstractmethod
    def inward(self, name: str, start: Callable[[Node], R], body: Callable[[Node, R], R]) -> Quantity[R]:
        """Of each frame the sum of its own start and of what its children's bodies hand on."""

    @abstractmethod
    def links_inward(self, name: str, start: Callable[[Link], R]) -> Quantity[R]:
        """Of each link its own and that of all links that hang on it."""

    @abstractmethod
    def links_by_root(self, name: str, start: Callable[[Link], R]) -> Quantity[R]:
        """Of each root the sum over all links of its tree."""

    @abstractmethod
    def total(self, name: str, forest: Forest, nothing: R, body: Callable[[Any], R]) -> R:
        """The sum over all parts; `nothing` where there are none."""

    @abstractmethod
    def cords(self, kind: str, which: Sequence[int], body: Callable[[Cord], Pull]) -> Cords:
        """Some actuators or tendons: the pull of each along its length, and what that does to degrees of freedom."""

    @abstractmethod
    def repeat(
        self, name: str, carried: Quantity[list[Value]], step: Callable[[], tuple[Value, Value]], most: int
    ) -> None:
        """Do something to a quantity of frames, again while the first of two numbers is below the second."""

    @abstractmethod
    def health(self) -> Health:
        """A new one."""

    @abstractmethod
    def matrix(
        self,
        name: str,
        own: Callable[[Node], tuple[Any, list[list[Value]]]],
        up: Callable[[Node, Node, Any], tuple[Any, list[list[Value]]]],
    ) -> TreeMatrix:
        """A symmetric matrix over degrees of freedom that is zero where neither moves the other.

        `own(node)` gives something for the way up, and the rows of the frame's degrees of freedom against its own up to
        the diagonal; `up(below, above, carried)` the same on the way to the world, against those of `above`.
        """


@dataclass(frozen=True, slots=True)
class Pull:
    """A force, and its derivative by the velocity that it acts along."""

    force: Value
    slope: Value


@dataclass(frozen=True, slots=True, eq=False)
class Cord:
    """An actuator or tendon: what pulls along a length."""

    kind: str
    length: Value
    speed: Value
    of: Callable[[str], list[Value]]
    """Its numbers, by the name of an array."""
    frame: Ref | None = None
    """The frame that it pushes beside."""


class Cords(ABC):
    """Actuators or tendons that have been computed."""

    @abstractmethod
    def on(self, node: Node) -> list[Pull]:
        """What all of them together do to a frame's degrees of freedom."""

    @abstractmethod
    def total_force(self) -> Value:
        """The sum of their forces along their lengths."""


class Health(ABC):
    """Sums over the new state, which show where it is no longer made of numbers."""

    @abstractmethod
    def note(self, node: Node, q: Sequence[Value], v: Sequence[Value]) -> None:
        """Take a frame's new state into account."""

    @abstractmethod
    def totals(self) -> list[Value]:
        """The sums: one for each role."""


class TreeMatrix(ABC):
    """A symmetric matrix over degrees of freedom with the sparsity of the tree."""

    @abstractmethod
    def diagonal(self, node: Node) -> list[Value]:
        """The entries of a frame's degrees of freedom with themselves."""

    @abstractmethod
    def plus(
        self,
        name: str,
        more: Callable[[Node], list[Value]],
        cords: Sequence[Cords] = (),
        times: Callable[[], Value] = float,
    ) -> TreeMatrix:
        """With something added on the diagonal, and `times` the slopes of cords between those that share one.

        Two degrees of freedom that share a cord but do not move each other have no place in the tree: they are left
        out.
        """

    @abstractmethod
    def factorised(self) -> Factors:
        """As L^T D L, with ones on L's diagonal and L as sparse as the matrix."""

    @abstractmethod
    def store(self, array: str) -> None:
        """All of it into an array of degrees of freedom by degrees of freedom."""


class Factors(ABC):
    """A factorised matrix."""

    @abstractmethod
    def solve(self, name: str, right: Quantity[list[Value]]) -> Quantity[list[Value]]:
        """The x of (L^T D L) x = right."""

    @abstractmethod
    def store(self, lower: str, inverse: str) -> None:
        """L and 1 / D into arrays."""
