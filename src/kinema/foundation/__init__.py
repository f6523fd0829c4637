"""L0: spatial algebra, diagnostics, names, decimals, optional and lazy imports, the cache; nothing of Kinema."""

from .cache import (
    CACHE_VARIABLE as CACHE_VARIABLE,
    DISTANCE_FIELD as DISTANCE_FIELD,
    Usage as Usage,
    add_entries as add_entries,
    cache_dir as cache_dir,
    cache_limit as cache_limit,
    cache_usage as cache_usage,
    clear_cache as clear_cache,
    content_digest as content_digest,
    is_recording as is_recording,
    load_entry as load_entry,
    load_or_make as load_or_make,
    recorded_entries as recorded_entries,
    set_cache_limit as set_cache_limit,
    source_digest as source_digest,
    store_entry as store_entry,
    write_atomically as write_atomically,
)
from .callable_module import make_callable as make_callable
from .decimals import shortest_decimals as shortest_decimals
from .diagnostics import (
    NOWHERE as NOWHERE,
    Diagnostic as Diagnostic,
    Diagnostics as Diagnostics,
    InternalError as InternalError,
    KinemaError as KinemaError,
    Origin as Origin,
    Policy as Policy,
    ReadError as ReadError,
    Severity as Severity,
    WriteError as WriteError,
    collect as collect,
    log_errors as log_errors,
    raise_on_error as raise_on_error,
)
from .garbage import no_collecting as no_collecting
from .lazy import export_lazily as export_lazily
from .naming import clean_name as clean_name, unique_name as unique_name
from .optional import require as require
from .quaternions import (
    conjugates as conjugates,
    quaternion_products as quaternion_products,
    quaternions_of as quaternions_of,
    rotation_vectors as rotation_vectors,
    turned as turned,
)
from .spatial import (
    Array as Array,
    ArrayLike as ArrayLike,
    Pose as Pose,
    axis_angle_to_matrix as axis_angle_to_matrix,
    matrix_to_quaternion as matrix_to_quaternion,
    matrix_to_rpy as matrix_to_rpy,
    quaternion_to_matrix as quaternion_to_matrix,
    rotation_aligning as rotation_aligning,
    rpy_to_matrix as rpy_to_matrix,
    skew as skew,
    vector as vector,
)
from .stopwatch import StageSeconds as StageSeconds, recorded_stages as recorded_stages, stage as stage
from .threads import THREADS_VARIABLE as THREADS_VARIABLE, threads_asked as threads_asked
