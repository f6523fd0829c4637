"""L1: the one description of a robot: SI, radians, float64, Z up, quaternions (w, x, y, z)."""

from .actuation import (
    Actuator as Actuator,
    Tendon as Tendon,
    TendonPathItem as TendonPathItem,
    TendonPathKind as TendonPathKind,
    Transmission as Transmission,
)
from .assembly import (
    Assembly as Assembly,
)
from .base import (
    with_base as with_base,
)
from .colliders import (
    colliders as colliders,
    colliding_pairs as colliding_pairs,
    collision_rules as collision_rules,
    rigid_bodies as rigid_bodies,
)
from .collision import (
    Collider as Collider,
    CollisionGroup as CollisionGroup,
    CollisionPair as CollisionPair,
    CollisionRules as CollisionRules,
    Neighbours as Neighbours,
    ScopedRules as ScopedRules,
    may_collide as may_collide,
)
from .constraint import (
    Constraint as Constraint,
    ConstraintKind as ConstraintKind,
)
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
    free_axes as free_axes,
    rotation as rotation,
    spherical_axes as spherical_axes,
    translation as translation,
)
from .kinematics import (
    Configuration as Configuration,
    coordinates as coordinates,
    zero_coordinates as zero_coordinates,
)
from .link import (
    Inertial as Inertial,
    Link as Link,
)
from .mass import combined_inertial as combined_inertial, geometry_mass as geometry_mass, is_solid as is_solid
from .material import (
    PhysicsMaterial as PhysicsMaterial,
    SolverParameters as SolverParameters,
    VisualMaterial as VisualMaterial,
)
from .motion import (
    can_reverse as can_reverse,
    joint_motion as joint_motion,
    reverse_joint as reverse_joint,
)
from .node import (
    Extra as Extra,
    Node as Node,
)
from .options import (
    FLAG_DEFAULTS as FLAG_DEFAULTS,
    OPTION_DEFAULTS as OPTION_DEFAULTS,
    is_switched_on as is_switched_on,
)
from .posed_meshes import (
    PosedMesh as PosedMesh,
    dressed_mesh as dressed_mesh,
    mesh_data as mesh_data,
    mesh_digest as mesh_digest,
    mesh_part as mesh_part,
    tessellate as tessellate,
    worn_appearance as worn_appearance,
)
from .robot import (
    Base as Base,
    Robot as Robot,
)
from .scaling import (
    scaled as scaled,
    scaled_geometry as scaled_geometry,
)
from .sensing import (
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
from .terrain import world_of_terrain as world_of_terrain
from .tree import (
    KinematicTree as KinematicTree,
    TreeEdge as TreeEdge,
    spanning_tree as spanning_tree,
)
from .world import (
    SCOPE as SCOPE,
    World as World,
    qualified as qualified,
)
