"""Benchmark harness: Kinema, MuJoCo C and MuJoCo Warp on the same cases with the same controls."""

from .cases import BenchmarkCase as BenchmarkCase, load_case as load_case
from .chart import bar_chart_svg as bar_chart_svg, scaling_chart_svg as scaling_chart_svg
from .harness import (
    BenchmarkResult as BenchmarkResult,
    ContactMeasurement as ContactMeasurement,
    Measurement as Measurement,
    run_benchmark as run_benchmark,
    shortest_times as shortest_times,
    single_environment_rates as single_environment_rates,
    step_accuracy as step_accuracy,
)
from .heap import (
    HeapKind as HeapKind,
    HeapMeasurement as HeapMeasurement,
    growth_exponents as growth_exponents,
    measure_heaps as measure_heaps,
)
from .scenes import ContactScene as ContactScene
from .simulators import KinemaRollout as KinemaRollout, KinemaSimulator as KinemaSimulator
from .startup_time import measure_startup_time as measure_startup_time
