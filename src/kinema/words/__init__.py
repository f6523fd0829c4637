"""L1: what the file formats call things, each name in one place: a reader and a writer must mean the same by it.

For USD, `usd` and `physics` hold OpenUSD's own words, `newton`, `mjc` and `physx` those of others who add to it, and
`ours` those that Kinema adds.
"""

from . import (
    mjc as mjc,
    mjcf as mjcf,
    newton as newton,
    ours as ours,
    physics as physics,
    physx as physx,
    usd as usd,
)
