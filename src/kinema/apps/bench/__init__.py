"""Throughput benchmarks of Kinema, MuJoCo C and MuJoCo Warp on the same robots with the same controls."""

from .chart import bar_chart_svg as bar_chart_svg
from .startup_time import measure_startup_time as measure_startup_time
from .throughput import (
    BenchmarkResult as BenchmarkResult,
    measure_single_environment as measure_single_environment,
    run_benchmark as run_benchmark,
)
