"""Names (elements, attributes, schemas, keys) of the file formats, each defined once for readers, writers and checks.

For USD: `usd` and `usd_physics` hold the names of OpenUSD's schemas, `newton`, `mjc` and `physx` those of vendor
schemas, `kinema_usd` Kinema's custom attributes. `mjcf`, `sdf` and `urdf` hold the keys under which a description
preserves format-specific settings; `mjcf` also has element names. `WriteOptions` are the options of the writers.
"""

from . import (
    kinema_usd as kinema_usd,
    mjc as mjc,
    mjcf as mjcf,
    newton as newton,
    physx as physx,
    sdf as sdf,
    urdf as urdf,
    usd as usd,
    usd_physics as usd_physics,
)
from .write_options import WriteKeywords as WriteKeywords, WriteOptions as WriteOptions
