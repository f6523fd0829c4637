"""Benchmarks: this simulator and its peers, in one run, on one robot, told the same things."""

from .chart import chart as chart
from .first_step import first_step as first_step
from .ours import single_environment as single_environment
from .run import Result as Result, run as run
