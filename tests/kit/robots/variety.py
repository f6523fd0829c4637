"""What may occur in a random robot: a record, and those that the formats ask for."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.description import JointKind

Kinds = tuple[JointKind, ...]

EVERY_KIND: Kinds = tuple(JointKind)
TREE_KINDS: Kinds = tuple(k for k in JointKind if k is not JointKind.DISTANCE)
"""Those that can carry a link."""
HELD_KINDS: Kinds = tuple(k for k in TREE_KINDS if k is not JointKind.FREE)
ONE_AXIS: Kinds = (JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC, JointKind.SCREW)
FOLLOWING: Kinds = tuple(k for k in HELD_KINDS if k not in (JointKind.FIXED, JointKind.SPHERICAL))
"""Those with coordinates that can follow another or be followed."""
ODD_NAMES = ("base", "upper arm", "link/1", "finger-3", "θ", "link_1", "link 1", "gripper", "été", "9lives", "a.b", "x")


@dataclass(frozen=True)
class Variety:
    """What may occur, each by itself; without arguments everything may. Numbers from 0 to 1 are probabilities."""

    # links
    names: tuple[str, ...] = ODD_NAMES
    """Of links, taken in any order."""
    n_links: tuple[int, int] = (1, 7)
    massless: float = 0.1
    n_shapes: int = 3
    """The most on one link."""
    masks: float = 0.3
    """Of a shape: bits that say what it collides with."""
    in_motion: float = 0.3
    """Of a link: velocities at first."""
    asleep: float = 0.1
    own_self_collide: float = 0.5
    """Of a link: a rule of its own on collisions in the robot."""

    # joints
    kinds: Kinds = TREE_KINDS
    """Between links, in the tree."""
    reversible: Kinds = TREE_KINDS
    """Those that may run against the tree."""
    stacked: Kinds = (JointKind.REVOLUTE, JointKind.SPHERICAL, JointKind.UNIVERSAL)
    """Those that may add their motion to the joint before them."""
    oblique: float = 0.2
    """Of a universal joint: axes that are not square to each other."""
    armature: bool = True
    free_anywhere: bool = True
    """Frames of free joints may be elsewhere than the origins of the links."""

    # the base
    declares_root: float = 0.5
    to_world: Kinds = TREE_KINDS
    """Joints to the world."""
    on_any_link: float = 0.3
    """Of a joint to the world: it may be on another link than the first."""

    # what there is beside the tree
    followers: Kinds = FOLLOWING
    loops: Kinds = EVERY_KIND
    n_loops: int = 2
    """The most in one robot."""
    declared_loops: bool = True
    """Joints that close a loop say so; else they are between any two links that no joint joins yet."""
    open_loops: float = 0.3
    """Of a loop: it is not closed where the robot stands at zero."""
    shape_pairs: float = 0.4
    groups: float = 0.4
    tendons: float = 0.3
    actuators: float = 0.4
    sensors: float = 0.5
    gravity: float = 0.5
    """Of a robot: a gravity of its own."""


URDF = Variety(kinds=HELD_KINDS)  # MuJoCo, one of its judges, has free joints on the world only
SDF = Variety(names=(*ODD_NAMES, "world", "a::b", "__x__", "joint 1"))  # forbidden ones, and one that a joint has too
MJCF = Variety()
USD = Variety(
    kinds=HELD_KINDS,
    reversible=HELD_KINDS,
    stacked=(),  # only those come back whose frames coincide at zero
    oblique=0.0,  # its axes are square to each other
    free_anywhere=False,  # a free joint is no prim
    followers=ONE_AXIS,
    loops=(*HELD_KINDS, JointKind.DISTANCE),
    open_loops=0.0,  # its reader warns of them
    shape_pairs=0.0,  # of shapes that collide with nothing else
)
GRAPH = Variety(
    n_shapes=0,
    n_links=(2, 9),
    kinds=ONE_AXIS,
    to_world=ONE_AXIS,
    on_any_link=1.0,
    stacked=(),
    followers=(),
    loops=ONE_AXIS,
    n_loops=3,
    declared_loops=False,
)
"""Connected links and joints that move along one axis; the tree decides which of them close a loop."""
SIMULATED = Variety(
    n_links=(1, 5),
    massless=0.0,
    n_shapes=0,
    to_world=HELD_KINDS,  # a free joint to the world counts from the world's origin there
    followers=(),
    loops=(),
)
"""Trees in which everything that moves has a mass."""
