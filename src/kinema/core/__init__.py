"""Rigid transforms, diagnostics, names, the disk cache, profiling, and lazy or optional imports.

Independent of all other packages of Kinema.
"""

from .cache import (
    CACHE_ENV_VARIABLE as CACHE_ENV_VARIABLE,
    DISTANCE_FIELD_SUFFIX as DISTANCE_FIELD_SUFFIX,
    CacheUsage as CacheUsage,
    LruCache as LruCache,
    cache_dir as cache_dir,
    cache_limit as cache_limit,
    cache_usage as cache_usage,
    clear_cache as clear_cache,
    content_digest as content_digest,
    is_recording as is_recording,
    load_entry as load_entry,
    load_or_compute as load_or_compute,
    process_lock as process_lock,
    record_entries as record_entries,
    set_cache_limit as set_cache_limit,
    source_digest as source_digest,
    store_entry as store_entry,
    store_recorded_entries as store_recorded_entries,
    write_atomically as write_atomically,
)
from .diagnostics import (
    UNKNOWN_ORIGIN as UNKNOWN_ORIGIN,
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
from .files import (
    check_writable as check_writable,
    make_parent_folder as make_parent_folder,
    write_file as write_file,
)
from .formatting import (
    TakenNames as TakenNames,
    shortest_decimals as shortest_decimals,
    to_identifier as to_identifier,
    unique_name as unique_name,
)
from .imports import (
    export_lazily as export_lazily,
    import_optional as import_optional,
    make_module_callable as make_module_callable,
)
from .linear_algebra import (
    Array as Array,
    ArrayLike as ArrayLike,
    arc_sine as arc_sine,
    arc_tangent as arc_tangent,
    determinant3 as determinant3,
    exponential as exponential,
    reproducible_inverse as reproducible_inverse,
    reproducible_norm as reproducible_norm,
    reproducible_product as reproducible_product,
    reproducible_solve as reproducible_solve,
    rotate_tensor as rotate_tensor,
    sine_cosine as sine_cosine,
    sines_cosines as sines_cosines,
    singular_value_decomposition as singular_value_decomposition,
    symmetric_eigen as symmetric_eigen,
)
from .process import (
    THREADS_ENV_VARIABLE as THREADS_ENV_VARIABLE,
    CyclicObjects as CyclicObjects,
    pause_garbage_collection as pause_garbage_collection,
    requested_thread_count as requested_thread_count,
)
from .profiling import StageTimes as StageTimes, record_stages as record_stages, timed_stage as timed_stage
from .transforms import (
    Pose as Pose,
    axis_angle_to_matrix as axis_angle_to_matrix,
    conjugate_quaternions as conjugate_quaternions,
    float64_array as float64_array,
    matrix_to_quaternion as matrix_to_quaternion,
    matrix_to_rpy as matrix_to_rpy,
    multiply_quaternions as multiply_quaternions,
    quaternion_to_matrix as quaternion_to_matrix,
    quaternions_from_rotation_vectors as quaternions_from_rotation_vectors,
    rotate_vectors as rotate_vectors,
    rotation_aligning_z as rotation_aligning_z,
    rotation_vectors_from_quaternions as rotation_vectors_from_quaternions,
    rpy_to_matrix as rpy_to_matrix,
    skew as skew,
)
from .xml_parser import (
    MAX_XML_BYTES as MAX_XML_BYTES,
    MAX_XML_DEPTH as MAX_XML_DEPTH,
    MAX_XML_ELEMENTS as MAX_XML_ELEMENTS,
    XmlElement as XmlElement,
    parse_xml as parse_xml,
)
