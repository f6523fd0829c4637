"""L1: what the file formats call things, each name in one place: a reader and a writer must mean the same by it.

For USD, `usd` and `physics` hold OpenUSD's own words, `newton`, `mjc` and `physx` those of others who add to it, and
`ours` those that Kinema adds. `mjcf`, `sdf` and `urdf` hold the words under which a description keeps what means
nothing elsewhere; `mjcf` also has the elements that both sides know by name.
"""

from . import (
    mjc as mjc,
    mjcf as mjcf,
    newton as newton,
    ours as ours,
    physics as physics,
    physx as physx,
    sdf as sdf,
    urdf as urdf,
    usd as usd,
)
