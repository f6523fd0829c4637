"""What there is on a stage: kernels are compiled for it, and leave out the rest."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """What a kernel has to know of; what is False does not occur."""

    tree: bool = False
    """Bodies are many, and rays go through a tree of them instead of a list."""
    meshes: bool = True
    solids: bool = True
    """Primitive shapes other than planes."""
    images: bool = True
    """Some surface has one."""
    glass: bool = True
    varnish: bool = True
    glow: bool = True
    """Some surface gives off light that paths look for."""
