"""Lazily imported public names of the package: everything that traces programs."""

from .engine.adjoint import AdjointPrograms as AdjointPrograms, Simulation as Simulation
from .engine.linearization import Linearizer as Linearizer, StepJacobians as StepJacobians
from .engine.parameter_values import ParameterValues as ParameterValues
from .engine.step_profiler import (
    BlockTime as BlockTime,
    StepProfiler as StepProfiler,
    single_threaded as single_threaded,
)
from .lowering.program_tracing import trace_unrolled_step as trace_unrolled_step
from .lowering.reference_configuration import (
    compute_mass_matrix_conditioning as compute_mass_matrix_conditioning,
    perturbed_configuration as perturbed_configuration,
    reference_link_poses as reference_link_poses,
)
