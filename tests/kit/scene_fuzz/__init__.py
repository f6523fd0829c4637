"""Random scenes of things that touch: what became of their numbers and of their energy.

A seed is a structure, a kind of friction cone and random numbers; one program serves all scenes of a structure, in
which sizes, friction, hardness, gravity, places and speeds differ between environments.
"""

from .outcome import GROWTH as GROWTH, Tumbled as Tumbled, outcomes as outcomes, tumbled as tumbled
from .structures import HULLS as HULLS, STRUCTURES as STRUCTURES
