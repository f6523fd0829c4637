"""Steps with contacts as a GPU takes them, launch by launch, on NumPy: what a thread alone makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.codegen import BlockArrowhead, LdlSolve
from kinema.dynamics import Engine
from kinema.dynamics.arrays import arena_arrays
from kinema.dynamics.collision import contact_buffer_specs
from kinema.dynamics.lowering.derivative_programs import launch_settings, solution_settings
from kinema.dynamics.lowering.step_program import trace_step
from kinema.ir import (
    SCRATCH,
    THREAD_SCRATCH,
    WARP_GLOBAL,
    ArenaOffset,
    IntrinsicCall,
    KernelPart,
    Program,
    interpret_in_place,
    split_into_kernels,
)
from kinema.ir.interpreter import interpret_kernel_part
from kinema.ir.program import Statements, walk
from kinema.ir.scratch_layout import VECTOR_WIDTH

N_ENVS, N_STEPS = 2, 2
CONES = """<mujoco><option timestep="0.002" cone="elliptic" impratio="10"/><worldbody>
<geom type="plane" size="5 5 .1" surfacevel=".3 .1 0 0 0 .2"/>
<body pos="0 0 .095"><freejoint/><geom type="box" size=".1 .1 .1"/>
<body pos=".3 0 0"><joint axis="0 1 0" range="-2 2" frictionloss=".3"/><geom type="sphere" size=".12" condim="6"/>
<geom type="capsule" size=".05 .1" pos="0 .1 -.05" condim="1"/></body>
<body pos="-.25 0 .05"><joint axis="0 1 0" damping=".1"/><geom size=".06" pos=".2 0 .1"/></body>
</body></worldbody><contact><exclude body1="world" body2="world"/></contact></mujoco>"""
PYRAMIDS = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 .1"/>
<body name="a" pos="0 0 .04"><freejoint/><geom size=".05"/>
<body pos=".1 0 0"><joint name="p" axis="0 1 0" range="-60 60"/><geom type="capsule" size=".03" fromto="0 0 0 .1 0 0"/>
<body pos=".1 0 0"><joint name="q" axis="0 1 0" range="-5 5"/><geom size=".04" condim="1"/></body></body></body>
<body name="b" pos=".05 0 .13"><freejoint/><geom size=".05"/></body></worldbody>
<equality><joint joint1="p" joint2="q" polycoef="0 .5 0 0 0"/></equality></mujoco>"""
GRIPPER = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 .115"><freejoint/><geom type="box" size=".1 .1 .02"/>
<body pos="-.058 0 -.05"><joint name="l" type="slide" axis="1 0 0" range="-.02 .02"/>
<geom type="box" size=".01 .03 .05"/></body>
<body pos=".06 0 -.05"><joint name="r" type="slide" axis="-1 0 0" range="-.02 .02"/>
<geom type="cylinder" size=".012 .05"/></body>
<body pos="0 .13 0"><joint type="ball" range="0 40"/><geom type="capsule" size=".03 .06" pos="0 .05 0"/></body></body>
<body pos="0 0 .049"><freejoint/><geom type="cylinder" size=".05 .05" friction=".8"/></body></worldbody>
<tendon><fixed limited="true" range="-.01 .01"><joint joint="l" coef="1"/><joint joint="r" coef="-1"/></fixed></tendon>
</mujoco>"""
"""A cylinder between a box and a cylinder, a ball in a cone and a tendon at its limit."""

TRAY = """<mujoco><option timestep="0.002" cone="elliptic" impratio="10"/><worldbody>
<body mocap="true"><geom type="box" size=".3 .3 .05" surfacevel=".2 .1 0 0 0 .3"/>
</body>
<body pos="0 0 .095"><freejoint/><geom type="box" size=".05 .05 .05" condim="4"/></body></worldbody></mujoco>"""
"""A kinematic body whose surface moves under a box; the contact frame has the opposite order of the geoms."""

PICKER = """<mujoco><option timestep="0.002"/><worldbody><body pos="0 0 .205"><joint type="slide" axis="1 0 0"/>
<geom size=".03"/><body name="tool"><joint type="slide" axis="0 0 1"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.07"/></body></body></worldbody></mujoco>"""
LINK = '<body pos=".05 0 0"><joint axis="0 1 0"/><geom type="capsule" size=".03" fromto="0 0 0 .05 0 0"/>'
ARMS = f"""<mujoco><option timestep="0.002" cone="elliptic"/><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 .095"><freejoint/><geom type="box" size=".1 .1 .1"/>
<body pos=".1 .2 .2"><joint name="a" axis="0 1 0"/><geom type="capsule" size=".03" fromto="0 0 0 .05 0 0"/>{3 * LINK}
<body pos=".05 0 0"><joint axis="0 0 1"/><geom size=".05"/></body>{3 * "</body>"}</body>
<body pos=".1 -.2 .2"><joint name="b" axis="0 1 0"/><geom type="capsule" size=".03" fromto="0 0 0 .05 0 0"/>{3 * LINK}
<body pos=".05 0 0"><joint axis="0 0 1"/><geom size=".05" pos="0 .305 0"/></body>{3 * "</body>"}</body>
</body></worldbody>MORE</mujoco>"""
"""Two arms on a trunk; their hands touch."""
HELD = '<equality><joint joint1="a" joint2="b"/></equality>'


def run_kernels(parts: list[KernelPart], arenas: Mapping[str, np.ndarray], places: Mapping[str, ArenaOffset]) -> None:
    """All launches of a step; what no launch has written is no number."""
    common = np.full((max(part.program.n_scratch for part in parts if not part.is_warp_region), N_ENVS), np.nan)
    for part in parts:
        if not part.is_warp_region:
            interpret_kernel_part(part.program, {**arenas, SCRATCH: common}, places)
            continue
        own = np.full((part.program.n_scratch, N_ENVS), np.nan)
        for row, to in (*given_rows(part), *part.copy_in):
            own[to : to + 1] = common[row]  # of four that go together some may be nobody's
        far = np.full((max(part.n_global, 1), N_ENVS), np.nan)
        interpret_kernel_part(part.program, {**arenas, SCRATCH: own, WARP_GLOBAL: far, THREAD_SCRATCH: common}, places)
        for row, to in part.copy_out:
            common[to] = own[row]


def given_rows(part: KernelPart) -> Iterator[tuple[int, int]]:
    """Rows that lines left to a team, and where they go in its memory."""
    for i, place in enumerate(part.handoff.vector_targets):
        yield from ((part.handoff.first_row + VECTOR_WIDTH * i + k, place + k) for k in range(VECTOR_WIDTH))


@dataclass(frozen=True)
class Launches:
    """A scene, the launches of its step, and where it starts."""

    engine: Engine
    parts: list[KernelPart]
    start: dict[str, np.ndarray]

    @classmethod
    def of(cls, text: str, folder: Path, **how: Any) -> Launches:
        path = folder / "scene.xml"
        path.write_text(text)
        scene = km.Scene(precision="double", quiet=True, **how)
        scene.add(path)
        return cls.of_scene(scene)

    @classmethod
    def of_scene(cls, scene: km.Scene, prepare: Callable[[], object] = lambda: None, **how: Any) -> Launches:
        """Launches of a scene that is not built yet, from the state that `prepare` makes."""
        scene.build(n_envs=N_ENVS, **how)
        prepare()
        engine = scene.built.engine
        parts = split_into_kernels(
            trace_step(engine.model, replace(engine.settings, use_warps=True), engine.array_offsets, loops=False), 32
        )
        arenas = {"state": engine.state, "controls": engine.controls, "uniform": engine.uniform}
        start = {name: np.array(arena.data, copy=True) for name, arena in arenas.items()}
        start = {name: x.reshape(-1, 1) if x.ndim == 1 else x[:, :N_ENVS] for name, x in start.items()}
        row, n = engine.array_offsets["vel"].row, engine.model.n_dofs
        start["state"][row : row + n] += np.random.default_rng(0).normal(size=(n, N_ENVS))
        if engine.model.kinematic_frames:
            for name, values in (("kinematic_velocity", [0.5, 0.2, 0.3, 0.1, 0.2, 0.6]), ("kinematic_steps", [9.0])):
                row = engine.array_offsets[name].row
                start["state"][row : row + len(values)] = np.array(values)[:, None]
        return cls(engine, parts, start)

    def row(self, name: str) -> int:
        return self.engine.array_offsets[name].row


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy computes what others leave out
@pytest.mark.parametrize(
    ("text", "n_steps", "integrator"),
    [
        pytest.param(CONES, N_STEPS, "implicitfast", id="cones"),
        pytest.param(PYRAMIDS, N_STEPS, "implicitfast", id="pyramids", marks=pytest.mark.exhaustive),
        pytest.param(PYRAMIDS, 1, "implicit", id="implicit"),
        pytest.param(TRAY, 1, "implicitfast", id="kinematic body"),
        # points between cylinders tell apart what rounds otherwise
        pytest.param(GRIPPER, 1, "implicitfast", id="gripper", marks=pytest.mark.exhaustive),
    ],
)
def test_a_step_in_launches_is_a_step(text: str, n_steps: int, integrator: str, tmp_path: Path) -> None:
    made = Launches.of(text, tmp_path, integrator=integrator)
    engine, parts = made.engine, made.parts
    alone: Program = trace_step(engine.model, engine.settings, engine.array_offsets, loops=False)
    assert any(part.is_warp_region for part in parts)
    assert any(part.work_queue_loop is not None for part in parts)
    one, other = ({name: x.copy() for name, x in made.start.items()} for _ in range(2))
    for _ in range(n_steps):
        interpret_in_place(alone, one, engine.array_offsets)
        run_kernels(parts, other, engine.array_offsets)
    assert one["state"][made.row("n_contacts")].min() > 0.0, "nothing touches"
    rows = [i for i in range(len(one["state"])) if i != made.row("n_iterations")]
    np.testing.assert_allclose(other["state"][rows], one["state"][rows], rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TRAY, id="tray"),
        pytest.param(CONES, id="cones", marks=pytest.mark.exhaustive),
        pytest.param(PYRAMIDS, id="pyramids", marks=pytest.mark.exhaustive),
    ],
)
def test_the_step_that_is_differentiated_in_launches(text: str, tmp_path: Path) -> None:
    """It stores the solution of the constraint solver that one thread finds."""
    made = Launches.of(text, tmp_path)
    engine, settings = made.engine, solution_settings(made.engine.settings)
    offsets = engine.array_offsets
    assert arena_arrays("state", engine.model, settings) == arena_arrays("state", engine.model, engine.settings)
    alone = trace_step(engine.model, settings, offsets, loops=False)
    executed = launch_settings(settings, replace(engine.settings, use_warps=True))
    parts = split_into_kernels(trace_step(engine.model, executed, offsets, loops=False), 32)
    assert any(part.is_warp_region for part in parts)
    one, other = ({name: x.copy() for name, x in made.start.items()} for _ in range(2))
    interpret_in_place(alone, one, offsets)
    run_kernels(parts, other, offsets)
    row, n = made.row("warm_start"), engine.model.n_dofs
    assert np.abs(one["state"][row : row + n]).max() > 1.0
    np.testing.assert_allclose(other["state"][row : row + n], one["state"][row : row + n], rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_attachments_in_launches(tmp_path: Path) -> None:
    """A weld, a rope and a suction cup in one environment each, and an attachment that breaks, are as on a thread."""
    path = tmp_path / "arm.xml"
    path.write_text(PICKER)
    scene = km.Scene(precision="double", quiet=True)
    arm = scene.add(path)
    boxes = [scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0.3 * i, 0.0, 0.05)) for i in range(2)]
    scene.add(km.Plane())
    cup = scene.add_suction(arm, "tool", pos=(0, 0, -0.1), normal=(0, 0, -1), distance=0.01)
    scene.reserve_attachments(arm, "tool", [boxes[1]])
    scene.reserve_attachments(boxes[0], targets=[boxes[1]], kind="rope")

    def prepare() -> None:
        cup.turn_on([0])
        scene.attach(arm, boxes[1], link_a="tool", envs_idx=[0], break_force=1e-3)
        scene.attach(arm, boxes[1], link_a="tool", envs_idx=[1])
        scene.attach(*boxes, kind="rope", length=0.29, envs_idx=[1])

    made = Launches.of_scene(scene, prepare)
    engine = made.engine
    alone = trace_step(engine.model, engine.settings, engine.array_offsets, loops=False)
    one, other = ({name: x.copy() for name, x in made.start.items()} for _ in range(2))
    for _ in range(N_STEPS):
        interpret_in_place(alone, one, engine.array_offsets)
        run_kernels(made.parts, other, engine.array_offsets)
    active = made.row("attachment_on")
    assert one["state"][active : active + 4].T.tolist() == [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    rows = [i for i in range(len(one["state"])) if i != made.row("n_iterations")]
    np.testing.assert_allclose(other["state"][rows], one["state"][rows], rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_there_is_no_room_for_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each list has room, but not all that obey one law; and the user may ask for more."""
    monkeypatch.setattr(contact_buffer_specs, "MIN_WARP_CONTACTS", 3)
    for name in ("WARP_CONTACTS_PER_DOF", "WARP_CONTACTS_PER_BODY_DOF"):
        monkeypatch.setattr(contact_buffer_specs, name, 0)
    counts = {}
    for room in (1, 16):
        made = Launches.of(CONES, tmp_path, max_contacts=room)
        run_kernels(made.parts, made.start, made.engine.array_offsets)
        found = made.start["state"]
        assert np.isfinite(found).all()
        counts[room] = [
            found[made.row(name)].tolist() for name in ("n_contacts", "n_lost_contacts", "max_required_capacity")
        ]
    there = counts[16][0]
    assert min(there) > 3
    assert counts[16][1:] == [[0.0] * N_ENVS] * 2
    assert counts[1] == [[3.0] * N_ENVS, [x - 3.0 for x in there], there]


def solutions(blocks: Statements) -> Iterator[LdlSolve]:
    """All equations that a team solves."""
    for block in walk(blocks):
        if isinstance(block, IntrinsicCall) and isinstance(block.intrinsic, LdlSolve):
            yield block.intrinsic


def limbs_of(made: Launches) -> BlockArrowhead | None:
    (found,) = {block.arrowhead for part in made.parts for block in solutions(part.program.body)}
    return found


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> tuple[Launches, Program]:
    """Two arms on a trunk, by a team and by a thread alone."""
    made = Launches.of(ARMS.replace("MORE", ""), tmp_path_factory.mktemp("arms"))
    return made, trace_step(made.engine.model, made.engine.settings, made.engine.array_offsets, loops=False)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("touching", [True, False])
def test_limbs_are_apart_until_they_touch(
    touching: bool, arms: tuple[Launches, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looks at how arms are coupled, unless hands touch."""
    (made, alone), looks = arms, list[int]()
    limbs, real = limbs_of(made), BlockArrowhead.sparsity_mask
    assert limbs is not None
    assert (limbs.diagonal_blocks, limbs.border) == (((6, 5), (11, 5)), tuple(range(6)))

    def coupled(self: BlockArrowhead, count: int) -> np.ndarray:
        looks.append(count)
        return real(self, count)

    monkeypatch.setattr(BlockArrowhead, "sparsity_mask", coupled)
    expected, found = ({name: x.copy() for name, x in made.start.items()} for _ in range(2))
    for start in (expected, found):
        start["state"][made.row("qpos") + 7] = 0.0 if touching else -0.4
    interpret_in_place(alone, expected, made.engine.array_offsets)
    run_kernels(made.parts, found, made.engine.array_offsets)
    rows = range(made.row("vel"), made.row("vel") + made.engine.model.n_dofs)
    np.testing.assert_allclose(found["state"][rows], expected["state"][rows], rtol=1e-9, atol=1e-9)
    assert bool(looks) != touching


def test_what_an_equality_couples_is_part_of_the_trunk(tmp_path: Path) -> None:
    limbs = limbs_of(Launches.of(ARMS.replace("MORE", HELD), tmp_path))
    assert limbs is not None
    assert (limbs.diagonal_blocks, limbs.border) == (((7, 4), (12, 4)), (*range(7), 11))
