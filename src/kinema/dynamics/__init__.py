"""L3: rigid-body dynamics over symbolic scalars, lowering of algorithms to programs, and the engine to run them."""

from typing import TYPE_CHECKING

from kinema.core import export_lazily

from .arrays import (
    ARRAYS as ARRAYS,
    ATTACHMENT_ARRAYS as ATTACHMENT_ARRAYS,
    PRESENT_ARRAY as PRESENT_ARRAY,
    UNBREAKABLE_FORCE as UNBREAKABLE_FORCE,
    ArrayInfo as ArrayInfo,
    ArrayUse as ArrayUse,
    ElementKind as ElementKind,
    initial_values as initial_values,
)
from .collision.contact_buffer_specs import (
    DEFAULT_CONTACTS_PER_FRAME_PAIR as DEFAULT_CONTACTS_PER_FRAME_PAIR,
    contact_capacity as contact_capacity,
    fast_types_without_sweep as fast_types_without_sweep,
    may_lose_contacts as may_lose_contacts,
    unsupported_type_pairs as unsupported_type_pairs,
)
from .collision.pair_rule_support import supports_pair_rules as supports_pair_rules
from .engine.engine import Engine as Engine, FusedRollout as FusedRollout
from .lowering.cached_analysis import mass_matrix_conditioning as mass_matrix_conditioning
from .lowering.inertia_check import MassMatrixConditioning as MassMatrixConditioning
from .model_parameters import (
    MIN_FRICTION as MIN_FRICTION,
    N_SIZE_VALUES as N_SIZE_VALUES,
    bounding_sphere_radius as bounding_sphere_radius,
    combined_pair_values as combined_pair_values,
)
from .model_variants import INVWEIGHT_PARAMETERS as INVWEIGHT_PARAMETERS, ModelVariants as ModelVariants
from .queries.field_catalog import (
    NAMESPACES as NAMESPACES,
    axis_names as axis_names,
    describe_fields as describe_fields,
)
from .queries.fields import FieldArray as FieldArray, Fields as Fields
from .queries.pair_distance import (
    PairDistances as PairDistances,
    PosedGeoms as PosedGeoms,
    geom_type_indices as geom_type_indices,
    packed_data_headers as packed_data_headers,
)
from .queries.ray_hits import RayIntersections as RayIntersections
from .settings import (
    CODEGEN_MODES as CODEGEN_MODES,
    PER_ENV_PARAMETERS as PER_ENV_PARAMETERS,
    BroadPhase as BroadPhase,
    ControlMode as ControlMode,
    InputMode as InputMode,
    Integrator as Integrator,
    Settings as Settings,
    Solver as Solver,
    unsupported_with_islands as unsupported_with_islands,
)
from .topology import (
    dynamic_frames as dynamic_frames,
    tree_index_of_frames as tree_index_of_frames,
    trees_of_entity as trees_of_entity,
)

if TYPE_CHECKING:
    from .exports import *  # noqa: F403
else:
    export_lazily(__name__, "exports")  # tracing modules: not needed to run a step from the cache
