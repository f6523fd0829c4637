"""Model builder: turns robot and world descriptions into a `Model` of flat arrays by an ordered sequence of passes."""

from .added_sensors import AddedSensor as AddedSensor
from .attachments import ATTACHMENT_COMPONENTS as ATTACHMENT_COMPONENTS
from .collision_geoms import GeomRecord as GeomRecord, pack_geom_table as pack_geom_table
from .collision_shapes import NONCONVEX_APPROXIMATIONS as NONCONVEX_APPROXIMATIONS, sdf_mesh as sdf_mesh
from .context import (
    AttachmentSpec as AttachmentSpec,
    EntitySpec as EntitySpec,
    GeometryCache as GeometryCache,
    SuctionCupSpec as SuctionCupSpec,
)
from .equalities import disabled_equalities as disabled_equalities
from .fluid import Medium as Medium
from .options import OptionFlags as OptionFlags, merged_options as merged_options, option_flags as option_flags
from .pair_rules import (
    MIN_RULED_GEOMS as MIN_RULED_GEOMS,
    MIN_RULED_GEOMS_OF_LANES as MIN_RULED_GEOMS_OF_LANES,
)
from .pipeline import (
    EntityModels as EntityModels,
    build_model as build_model,
    collision_geoms_of as collision_geoms_of,
)
from .sdf_sensors import scan_directions as scan_directions
from .sensor_outputs import (
    COLLISION_ONLY as COLLISION_ONLY,
    CONTACT_FIELDS as CONTACT_FIELDS,
    CONTACT_REDUCTIONS as CONTACT_REDUCTIONS,
    VOLUME as VOLUME,
)
