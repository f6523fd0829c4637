"""The model: flat arrays that describe all simulated objects (names, shapes, units), without algorithms."""

from .attachments import (
    AttachmentsInfo as AttachmentsInfo,
    SuctionCupsInfo as SuctionCupsInfo,
    empty_attachments as empty_attachments,
    empty_suction_cups as empty_suction_cups,
)
from .derived_constants import (
    DerivedConstants as DerivedConstants,
    PerEnvParameterEntry as PerEnvParameterEntry,
    PerEnvParameterTable as PerEnvParameterTable,
)
from .equalities import CouplingsInfo as CouplingsInfo, EqualitiesInfo as EqualitiesInfo
from .fluid import FluidInfo as FluidInfo, empty_fluid as empty_fluid
from .geom_data import (
    HULL_FACE_SIZE as HULL_FACE_SIZE,
    MAX_FACE_VERTICES as MAX_FACE_VERTICES,
    SDF_HEADER_SIZE as SDF_HEADER_SIZE,
    SUPPORT_CELL_SIZE as SUPPORT_CELL_SIZE,
    SUPPORT_ENTRY_SIZE as SUPPORT_ENTRY_SIZE,
    SUPPORT_TABLE_HEADER_SIZE as SUPPORT_TABLE_HEADER_SIZE,
    PackedHulls as PackedHulls,
    Polyhedron as Polyhedron,
    SampledSdf as SampledSdf,
    pack_hulls as pack_hulls,
    pack_sdf as pack_sdf,
)
from .geoms import (
    ABSENT_RADIUS as ABSENT_RADIUS,
    GEOM_TYPES as GEOM_TYPES,
    PLANAR_GEOM_TYPES as PLANAR_GEOM_TYPES,
    GeomsInfo as GeomsInfo,
    PairRulesInfo as PairRulesInfo,
    PairsInfo as PairsInfo,
    empty_geoms as empty_geoms,
    empty_pair_rules as empty_pair_rules,
    empty_pairs as empty_pairs,
)
from .kinematic_tree import (
    PRIMITIVE_JOINT_SIZES as PRIMITIVE_JOINT_SIZES,
    DofsInfo as DofsInfo,
    FramesInfo as FramesInfo,
    JointsInfo as JointsInfo,
    LinksInfo as LinksInfo,
    PrimitiveJointType as PrimitiveJointType,
)
from .model import (
    EntityInfo as EntityInfo,
    KeyframesInfo as KeyframesInfo,
    Model as Model,
    ModelOptions as ModelOptions,
)
from .sensor_kinds import (
    SENSOR_KINDS as SENSOR_KINDS,
    SensorKind as SensorKind,
    SensorTarget as SensorTarget,
)
from .sensors import (
    BVH_LEAF_TRIANGLES as BVH_LEAF_TRIANGLES,
    BVH_NODE_SIZE as BVH_NODE_SIZE,
    DistanceGeomsInfo as DistanceGeomsInfo,
    RayGeomsInfo as RayGeomsInfo,
    SensorOutputsInfo as SensorOutputsInfo,
    SensorsInfo as SensorsInfo,
    empty_distance_geoms as empty_distance_geoms,
    empty_ray_geoms as empty_ray_geoms,
    empty_sensors as empty_sensors,
)
from .transmissions import (
    CONTROL_INPUTS as CONTROL_INPUTS,
    SERVO_PARAMETERS as SERVO_PARAMETERS,
    SERVO_STATES as SERVO_STATES,
    ActuatorsInfo as ActuatorsInfo,
    PathSegmentsInfo as PathSegmentsInfo,
    TendonsInfo as TendonsInfo,
)
