"""L1: the flat arrays of what is simulated: names, shapes, units. No algorithms."""

from .bodies import (
    MOTION_SIZES as MOTION_SIZES,
    DofsInfo as DofsInfo,
    FramesInfo as FramesInfo,
    JointsInfo as JointsInfo,
    LinksInfo as LinksInfo,
    Motion as Motion,
)
from .cords import ActuatorsInfo as ActuatorsInfo, TendonsInfo as TendonsInfo
from .farthest import ENTRY as ENTRY, HEAD as HEAD
from .fields import FIELD_HEAD as FIELD_HEAD, SampledField as SampledField, pack_field as pack_field
from .fluid import FluidInfo as FluidInfo, no_fluid as no_fluid
from .geoms import (
    ABSENT as ABSENT,
    SHAPE_KINDS as SHAPE_KINDS,
    GeomsInfo as GeomsInfo,
    PairsInfo as PairsInfo,
    no_geoms as no_geoms,
    no_pairs as no_pairs,
)
from .hulls import (
    FACE as FACE,
    MOST_CORNERS as MOST_CORNERS,
    TABLE as TABLE,
    PackedHulls as PackedHulls,
    Polyhedron as Polyhedron,
    pack_hulls as pack_hulls,
)
from .model import (
    EntityInfo as EntityInfo,
    KeyframesInfo as KeyframesInfo,
    Model as Model,
    ModelOptions as ModelOptions,
)
from .own import OwnNumbers as OwnNumbers, OwnWord as OwnWord
from .paths import PathsInfo as PathsInfo
from .sensors import (
    RAY_BOX as RAY_BOX,
    RAY_LEAF as RAY_LEAF,
    RayShapes as RayShapes,
    ReadingsInfo as ReadingsInfo,
    SensorsInfo as SensorsInfo,
    no_ray_shapes as no_ray_shapes,
    no_sensors as no_sensors,
)
from .ties import CouplingsInfo as CouplingsInfo, TiesInfo as TiesInfo
