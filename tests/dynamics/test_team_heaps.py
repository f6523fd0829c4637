"""Steps of heaps as a GPU takes them, by a team with tiles, on NumPy: what a thread alone makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.codegen import (
    WARP_MEMORY_HEADER,
    MinimumDegreeOrdering,
    Target,
    WarpRegionConfig,
    emit_warp_kernel,
    warp_region_tables,
)
from kinema.dynamics import Engine
from kinema.dynamics.lowering.step_program import should_use_warps, trace_step
from kinema.dynamics.solver import constraint_solver, warp_block_sparse, warp_many_trees
from kinema.ir import SCRATCH, IntrinsicCall, KernelPart, optimise, round_up_to_4, split_into_kernels
from kinema.ir.interpreter import interpret_kernel_part
from kinema.ir.program import Statements, walk
from kit.choosing import representatives

from ..ir.gpu_on_host import run_warp_on_host
from .test_team_steps import N_ENVS, run_kernels

HEAP = """<mujoco><option timestep="0.002" cone="{cone}" impratio="{impratio}"/><worldbody>
<geom type="plane" size="5 5 .1"/>
<body pos="0 0 .049"><freejoint/><geom type="box" size=".05 .05 .05" mass="1"/></body>
<body pos=".02 .01 .147"><freejoint/><geom type="box" size=".05 .05 .05" mass="2" condim="4"/></body>
<body pos=".01 0 .235"><freejoint/><geom size=".04" condim="6"/></body>
{more}<body pos=".2 0 .13"><joint axis="0 1 0" range="-5 5" frictionloss=".1"/>
<geom type="capsule" size=".04" fromto="0 0 0 -.1 0 0"/>
<body pos="-.1 0 0"><joint axis="0 1 0" damping=".1"/><geom size=".045" pos="0 0 .01"/></body></body>
</worldbody></mujoco>"""
STACK = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 .049"><freejoint/><geom size=".05"/></body><body pos=".02 0 .145"><freejoint/><geom size=".05"/></body>
<body pos=".098 0 .05"><freejoint/><geom size=".05"/></body></worldbody></mujoco>"""
"""Balls: one touches the two others, two touch the ground."""
MORE = '<body pos=".098 0 .045"><freejoint/><geom type="box" size=".05 .05 .05" mass=".5" condim="1"/></body>'
"""Another body of the heap, without friction."""


@pytest.fixture(autouse=True)
def _small_heaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constraint_solver, "MAX_DENSE_DOFS", 8)


def engine_of(text: str, folder: Path) -> Engine:
    """A scene of a file."""
    path = folder / "heap.xml"
    path.write_text(text)
    scene = km.Scene(precision="double", quiet=True)
    scene.add(path)
    scene.build(n_envs=N_ENVS)
    return scene.built.engine


def launches(engine: Engine) -> list[KernelPart]:
    return split_into_kernels(
        trace_step(engine.model, replace(engine.settings, use_warps=True), engine.array_offsets, loops=True), 32
    )


def thrown(engine: Engine) -> dict[str, np.ndarray]:
    """The start, with some speed."""
    arenas = {"state": engine.state, "controls": engine.controls, "uniform": engine.uniform}
    start = {name: np.array(arenas[name].data, copy=True) for name in ("state", "controls", "uniform")}
    start = {name: x.reshape(-1, 1) if x.ndim == 1 else x[:, :N_ENVS] for name, x in start.items()}
    row, n = engine.array_offsets["vel"].row, engine.model.n_dofs
    start["state"][row : row + n] += 0.1 * np.random.default_rng(0).normal(size=(n, N_ENVS))
    return start


def arrangements(blocks: Statements) -> Iterator[MinimumDegreeOrdering]:
    for block in walk(blocks):
        if isinstance(block, IntrinsicCall) and isinstance(block.intrinsic, MinimumDegreeOrdering):
            yield block.intrinsic


def added(engine: Engine, state: np.ndarray) -> np.ndarray:
    """What constraints and contacts added to the accelerations."""
    row = engine.array_offsets["warm_start"].row
    return state[row : row + engine.model.n_dofs]


def compare(engine: Engine, steps: int, rtol: float = 1e-9, min_contacts: float = 8.0) -> None:
    """Steps of a team, and of a thread alone."""
    parts, numbers = launches(engine), thrown(engine)
    is_factorised = warp_many_trees.MAX_FACTORIZED_TREES > 0
    assert len([x for part in parts for x in arrangements(part.program.body)]) == is_factorised, "no heap"
    engine.state.data[:, :N_ENVS] = numbers["state"]
    for _ in range(steps):
        engine.step()
        run_kernels(parts, numbers, engine.array_offsets)
        expected = np.array(engine.state.data)[:, :N_ENVS]
        found = numbers["state"]
        assert expected[engine.array_offsets["n_contacts"].row].min() > min_contacts, "too little touches"
        count = engine.array_offsets["n_contacts"].row
        np.testing.assert_array_equal(found[count], expected[count])
        whole = np.abs(added(engine, expected)).max()
        np.testing.assert_allclose(added(engine, found), added(engine, expected), rtol=rtol, atol=rtol * whole)


@pytest.mark.slow("a step takes half a minute on NumPy, which computes both sides of every branch")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy computes what others leave out
@pytest.mark.parametrize(
    ("cone", "impratio", "more", "steps"),
    [
        ("elliptic", 10.0, "", 1),
        pytest.param("elliptic", 10.0, MORE, 1, marks=pytest.mark.exhaustive),
        pytest.param("elliptic", 10.0, MORE, 3, marks=pytest.mark.benchmark),
        pytest.param("pyramidal", 1.0, MORE, 3, marks=pytest.mark.benchmark),
    ],
)
def test_a_heap_by_a_team_is_a_heap(cone: str, impratio: float, more: str, steps: int, tmp_path: Path) -> None:
    """Trees of different width, contacts of all dimensions, limits, friction, contacts within a tree."""
    engine = engine_of(HEAP.format(cone=cone, impratio=impratio, more=more), tmp_path)
    assert should_use_warps(engine.model, engine.settings)
    compare(engine, steps)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("text", "min_contacts"),
    [
        pytest.param(STACK, 2.0, id="stack"),
        pytest.param(HEAP.format(cone="elliptic", impratio=1.0, more=MORE), 8.0, marks=pytest.mark.exhaustive),
        pytest.param(HEAP.format(cone="pyramidal", impratio=1.0, more=MORE), 8.0, marks=pytest.mark.exhaustive),
    ],
)
def test_conjugate_gradients_of_a_warp(
    text: str, min_contacts: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newton directions by conjugate gradients, as for more trees than are factorised."""
    monkeypatch.setattr(warp_many_trees, "MAX_FACTORIZED_TREES", 0)
    monkeypatch.setattr(constraint_solver, "MIN_WARP_TREES", 2)
    compare(engine_of(text, tmp_path), 1, min_contacts=min_contacts)


@pytest.mark.benchmark
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_heap_with_tiles_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is hardly room for any tile directions are not exact, but still lead to where it is nearly solved."""
    monkeypatch.setattr(warp_block_sparse, "BLOCKS_PER_TREE", 0)
    engine = engine_of(HEAP.format(cone="pyramidal", impratio=1.0, more=MORE), tmp_path)
    compare(engine, 1, rtol=0.02)


def test_who_has_such_a_team(tmp_path: Path) -> None:
    text = HEAP.format(cone="pyramidal", impratio=1.0, more=MORE)
    engine = engine_of(text, tmp_path)
    asked = replace(engine.settings, use_warps=True)
    assert constraint_solver.fits_many_tree_warp_solver(engine.model, asked)
    assert not constraint_solver.fits_many_tree_warp_solver(engine.model, engine.settings)
    tied = text.replace(
        "</worldbody>", '</worldbody><equality><connect body1="a" body2="b" anchor="0 0 0"/></equality>'
    )
    tied = tied.replace('<body pos="0 0 .049">', '<body name="a" pos="0 0 .049">')
    tied = tied.replace('<body pos=".02 .01 .147">', '<body name="b" pos=".02 .01 .147">')
    other = engine_of(tied, tmp_path)
    assert not constraint_solver.fits_many_tree_warp_solver(other.model, replace(other.settings, use_warps=True))


@pytest.mark.parametrize("precision", representatives(["single", "double"], 0))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_text_of_a_team_says_the_same(precision: str, tmp_path: Path) -> None:
    """What is emitted for a GPU, run thread by thread on this machine: in both precisions, as both read by fours."""
    kind, near = (np.float64, 1e-9) if precision == "double" else (np.float32, 1e-4)
    size, stride = 4, 32
    engine = engine_of(HEAP.format(cone="pyramidal", impratio=1.0, more=MORE), tmp_path)
    program = trace_step(engine.model, replace(engine.settings, use_warps=True), engine.array_offsets, loops=True)
    parts, numbers = split_into_kernels(program, size), thrown(engine)
    expected = {name: x.copy() for name, x in numbers.items()}
    run_kernels(parts, expected, engine.array_offsets)
    common = np.full((max(part.program.n_scratch for part in parts if not part.is_warp_region), N_ENVS), np.nan)
    for part in parts:
        if not part.is_warp_region:
            interpret_kernel_part(part.program, {**numbers, SCRATCH: common}, engine.array_offsets)
            continue
        target, part_ = Target(precision, is_gpu=True), replace(part, program=optimise(part.program))
        room = WarpRegionConfig(size, round_up_to_4(part.program.n_scratch), round_up_to_4(part.n_global))
        own = {
            "controls_start": numbers["controls"],
            SCRATCH: common,
            "state": numbers["state"],
            "out": np.zeros((1, 1)),
        }
        wide = {name: np.pad(x, ((0, 1), (0, stride - x.shape[1]))).astype(kind) for name, x in own.items()}
        arrays: dict[str, Any] = dict(wide)
        arrays["uniform"] = numbers["uniform"].astype(kind)
        ints, floats = warp_region_tables(part_, target, size)
        arrays["ints"], arrays["floats"] = ints, floats.astype(kind)
        # one team for all environments: what it finds of one is nothing to the next
        arrays["memory"] = np.full(WARP_MEMORY_HEADER + room.n_device_memory, np.nan, kind)
        run_warp_on_host(
            emit_warp_kernel(part_, engine.array_offsets, target, room), arrays, (stride, 1, 0, N_ENVS), size
        )
        assert arrays["memory"][:1].view(np.int32)[0] == 0
        common[:], numbers["state"][:] = arrays[SCRATCH][:-1, :N_ENVS], arrays["state"][:-1, :N_ENVS]
    found, known = (added(engine, x["state"]) for x in (numbers, expected))
    np.testing.assert_allclose(found, known, rtol=near, atol=near * np.abs(known).max())
