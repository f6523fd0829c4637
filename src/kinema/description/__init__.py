"""Format-independent description of robots and worlds: SI units, radians, float64, Z up, quaternions (w, x, y, z)."""

from .actuation import (
    Actuator as Actuator,
    Tendon as Tendon,
    TendonPathItem as TendonPathItem,
    TendonPathKind as TendonPathKind,
    Transmission as Transmission,
)
from .collision_filter import (
    Collider as Collider,
    CollisionGroup as CollisionGroup,
    CollisionPair as CollisionPair,
    CollisionRules as CollisionRules,
    Neighbours as Neighbours,
    ScopedRules as ScopedRules,
    may_collide as may_collide,
)
from .collision_pairs import (
    colliders as colliders,
    colliding_pairs as colliding_pairs,
    collision_rules as collision_rules,
    rigid_body_indices as rigid_body_indices,
)
from .constraint import Constraint as Constraint, ConstraintKind as ConstraintKind
from .joint import (
    Axis as Axis,
    AxisMotion as AxisMotion,
    AxisState as AxisState,
    ConeLimit as ConeLimit,
    Drive as Drive,
    DriveType as DriveType,
    Joint as Joint,
    JointKind as JointKind,
    Mimic as Mimic,
    can_reverse as can_reverse,
    free_axes as free_axes,
    joint_transform as joint_transform,
    reverse_joint as reverse_joint,
    rotation as rotation,
    spherical_axes as spherical_axes,
    translation as translation,
)
from .kinematics import (
    Configuration as Configuration,
    KinematicTree as KinematicTree,
    TreeEdge as TreeEdge,
    joint_coordinates as joint_coordinates,
    spanning_tree as spanning_tree,
    zero_coordinates as zero_coordinates,
)
from .link import (
    Inertial as Inertial,
    Link as Link,
    combine_inertials as combine_inertials,
    encloses_volume as encloses_volume,
    geometry_mass_properties as geometry_mass_properties,
)
from .material import (
    PhysicsMaterial as PhysicsMaterial,
    SolverParameters as SolverParameters,
    VisualMaterial as VisualMaterial,
)
from .node import Extra as Extra, Node as Node, file_order as file_order
from .options import (
    FLAG_DEFAULTS as FLAG_DEFAULTS,
    OPTION_DEFAULTS as OPTION_DEFAULTS,
    OPTIONS_WITHOUT_DEFAULT as OPTIONS_WITHOUT_DEFAULT,
    is_flag_enabled as is_flag_enabled,
)
from .robot import Assembly as Assembly, Base as Base, Robot as Robot
from .sensing import (
    TAXELS as TAXELS,
    Camera as Camera,
    Frame as Frame,
    Keyframe as Keyframe,
    Light as Light,
    Sensor as Sensor,
)
from .shape import (
    Approximation as Approximation,
    Box as Box,
    Capsule as Capsule,
    Cone as Cone,
    Cylinder as Cylinder,
    Ellipsoid as Ellipsoid,
    Geometry as Geometry,
    HeightField as HeightField,
    Mesh as Mesh,
    Plane as Plane,
    Shape as Shape,
    Sphere as Sphere,
)
from .tessellation import (
    PosedMesh as PosedMesh,
    effective_appearance as effective_appearance,
    load_textured_mesh as load_textured_mesh,
    mesh_data as mesh_data,
    mesh_digest as mesh_digest,
    submesh_data as submesh_data,
    tessellate as tessellate,
)
from .transforms import scale_description as scale_description, scale_geometry as scale_geometry, with_base as with_base
from .world import SCOPE as SCOPE, World as World, qualified_name as qualified_name, terrain_world as terrain_world
