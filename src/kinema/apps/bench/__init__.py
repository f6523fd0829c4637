"""Benchmarks: this simulator and its peers, in one run, on one robot, told the same things."""

from .run import Case as Case, Result as Result, run as run
