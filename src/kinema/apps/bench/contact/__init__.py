"""Benchmarks with contacts: robots on floors and terrain, a hand with a cube, a tower of boxes, clutter in a bin."""

from .case import (
    ContactCase as ContactCase,
    load_contact_case as load_contact_case,
    load_contact_kinema_model as load_contact_kinema_model,
    random_controls as random_controls,
)
from .results import run_contact_benchmark as run_contact_benchmark
from .scenes import ContactScene as ContactScene
from .simulators import (
    ContactMeasurement as ContactMeasurement,
    KinemaRollout as KinemaRollout,
    KinemaSimulator as KinemaSimulator,
    measure_single_contact_environment as measure_single_contact_environment,
)
