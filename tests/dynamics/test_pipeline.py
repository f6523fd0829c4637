"""The stage table: every quantity has one producer, stages read only what earlier stages produced, and say so."""

from __future__ import annotations

import pytest

from kinema.builder import EntitySpec, build_model
from kinema.dynamics import Settings
from kinema.dynamics.lowering.program_tracing import trace_looped_program
from kinema.dynamics.pipeline import STAGES, compute, compute_world_poses, stage
from kinema.dynamics.step import QUANTITIES, StepData, UnproducedQuantityError
from kinema.dynamics.tree.trace_context import TraceContext
from kinema.ir import Program
from kinema.read import read
from kit.assets import EXAMPLES


def trace_arm(body: object, outputs: dict | None = None) -> Program:
    """Trace a function of the tracing context for the example arm, as loops."""
    model = build_model([EntitySpec(name="arm", description=read(EXAMPLES / "arm" / "arm.urdf"), fixed=True)])
    return trace_looped_program(model, Settings(), body, outputs or {})  # type: ignore[arg-type]


def test_every_quantity_names_the_one_stage_that_produces_it() -> None:
    producers = {name: [s.name for s in STAGES if name in s.produces] for name in QUANTITIES}
    assert producers == {name: [quantity.stage] for name, quantity in QUANTITIES.items()}


def test_stages_read_earlier_quantities_only() -> None:
    def check(ctx: TraceContext) -> None:
        for use_aba in (False, True):
            step, known = StepData(ctx, use_aba), set()
            for each in STAGES:
                assert each.reads_of(step) <= known, each.name
                known |= set(each.produces)

    trace_arm(check)


def test_a_quantity_read_too_early_names_itself_and_its_stage() -> None:
    def read_early(ctx: TraceContext) -> None:
        _ = StepData(ctx).mass_matrix

    with pytest.raises(UnproducedQuantityError, match=r"`mass_matrix`.*`compute_mass_matrix`"):
        trace_arm(read_early)


def test_a_stage_may_read_only_what_it_lists() -> None:
    @stage("world_poses", reads=["local_poses"])
    def cheat(step: StepData) -> None:
        _ = step.velocities

    @stage("world_poses", reads=["local_poses"])
    def forget(step: StepData) -> None:
        """Produce nothing."""

    def run(ctx: TraceContext) -> None:
        step = StepData(ctx)
        compute(step, "velocities")
        with pytest.raises(UnproducedQuantityError, match=r"`velocities`.*not listed.*`cheat`"):
            cheat(step)

    trace_arm(run)

    def run_forgetful(ctx: TraceContext) -> None:
        step = StepData(ctx)
        compute(step, "local_poses")
        with pytest.raises(UnproducedQuantityError, match=r"`forget` did not produce `world_poses`"):
            forget(step)

    trace_arm(run_forgetful)


def test_a_quantity_is_produced_once() -> None:
    def run(ctx: TraceContext) -> None:
        step = StepData(ctx)
        compute(step, "world_poses")
        compute(step, "world_poses")  # already there: traces nothing
        with pytest.raises(RuntimeError, match="`world_poses` was produced twice"):
            compute_world_poses(step)

    trace_arm(run)


def test_only_needed_stages_are_traced() -> None:
    def run(ctx: TraceContext) -> None:
        step = StepData(ctx)
        compute(step, "tree_coms")
        assert set(step.produced) == {"local_poses", "world_poses", "link_bodies", "tree_coms"}

    trace_arm(run)
