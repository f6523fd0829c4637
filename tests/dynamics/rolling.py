"""Helpers for programs with loops: models by text, and one step both ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from kinema.builder import EntitySpec, build_model
from kinema.core import Array, Diagnostics, collect
from kinema.description import Base
from kinema.dynamics import ControlMode, InputMode, Settings, trace_unrolled_step
from kinema.dynamics.arrays import CONTROL_GAINS, arena_arrays
from kinema.dynamics.lowering.step_program import trace_looped_step
from kinema.ir import UNIFORM, ArenaOffset, Program, interpret, interpret_in_place
from kinema.model import Model
from kinema.read import read
from kinema.runtime import ArenaLayout
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import Case, robot

from .arrays_for_tests import Modes, arrays_for, runs_of

EVERY_JOINT = ("stacked", "screw", "planar", "universal", "cylindrical", "free_between_links")


def zoo(kinds: tuple[str, ...] = EVERY_JOINT, *, both_ways: bool = True) -> Model:
    """Several robots with all kinds of joints, forwards and backwards or in turn, one twice, and one that flies."""
    cases = [Case(k, b) for i, k in enumerate(kinds) for b in (False, True) if both_ways or b == bool(i % 2)]
    described = [robot(case) for case in cases] + [robot(Case("spherical", True), Base.FREE), robot(cases[0])]
    parts = [EntitySpec(name=f"robot {i}", description=r) for i, r in enumerate(described)]
    return build_model(parts, diagnostics=Diagnostics())


QUADRUPED = """<mujoco><option timestep="0.002"/><default><joint damping="0.2" armature="0.01"/></default><worldbody>
<body name="trunk" pos="0 0 0.4"><freejoint/><inertial pos="0.02 0 0" mass="6" diaginertia="0.03 0.08 0.09"/>{legs}
</body></worldbody><actuator>{actuators}</actuator>{tendons}</mujoco>"""
LEG = """<body name="hip{i}" pos="{x} {y} 0"><joint name="a{i}" axis="1 0 0"/>
<inertial pos="0 {y} 0" mass="0.7" diaginertia="0.001 0.001 0.001"/>
<body name="thigh{i}" pos="0 {y} 0"><joint name="b{i}" axis="0 1 0" stiffness="3" springref="0.3"/>
<inertial pos="0 0 -0.1" mass="1" diaginertia="0.006 0.006 0.001"/>
<body name="shank{i}" pos="0 0 -0.2"><joint name="c{i}" axis="0 1 0"/>
<inertial pos="0 0 -0.1" mass="0.2" diaginertia="0.002 0.002 0.0001"/></body></body></body>"""


def quadruped(tendons: str = "", n_legs: int = 4) -> str:
    """A trunk with four legs (or fewer) of three hinges, position servos, a motor and a velocity servo."""
    legs = "".join(LEG.format(i=i, x=0.2 if i < 2 else -0.2, y=0.1 if i % 2 else -0.1) for i in range(n_legs))
    actuators = "".join(
        f'<position joint="{j}{i}" kp="30" kv="1" ctrlrange="-1 1" forcerange="-8 8"/>'
        for i in range(n_legs)
        for j in "ab"
    )
    actuators += '<motor joint="c0" gear="2"/><velocity joint="c1" kv="3"/>'
    return QUADRUPED.format(legs=legs, actuators=actuators, tendons=tendons)


def chain(n: int, axes: tuple[str, ...] = ("0 1 0",), joint: str = "damping='0.01' armature='0.002'") -> str:
    """A chain of hinges that hangs from the world."""
    links = "".join(
        f"<body name='b{i}' pos='0 0 {-0.1 if i else 0}'><joint name='j{i}' axis='{axes[i % len(axes)]}' {joint}/>"
        "<inertial pos='0 0.01 -0.05' mass='0.1' diaginertia='0.001 0.001 0.0005'/>"
        for i in range(n)
    )
    return f"<mujoco><option timestep='0.002'/><worldbody>{links}{'</body>' * n}</worldbody></mujoco>"


def bodies(n: int) -> str:
    """Bodies that fly alone, each of its own mass."""
    return (
        "<mujoco><worldbody>"
        + "".join(
            f"<body name='b{i}' pos='{i} 0 1'><freejoint/><inertial pos='0 {0.01 * (i % 3)} 0.02' mass='{1 + i % 7}' "
            f"diaginertia='{0.01 + 0.0001 * (i % 50)} 0.012 0.015'/></body>"
            for i in range(n)
        )
        + "</worldbody></mujoco>"
    )


def model_of_text(text: str, copies: int = 1) -> Model:
    """The model of an MJCF text, perhaps several times."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.xml"
        file.write_text(text, encoding="utf-8")
        described = read(file, policy=collect)
    parts = [EntitySpec(name=f"copy {i}", description=described) for i in range(copies)]
    return build_model(parts, diagnostics=Diagnostics())


@cache
def unrolled(model: Model, settings: Settings) -> Program:
    """The straight line, traced once."""
    return trace_unrolled_step(model, settings)


ARENAS = ("state", "controls", UNIFORM)
MODES = (ControlMode.POSITION, ControlMode.ACTUATOR, ControlMode.VELOCITY, ControlMode.FORCE)


class Both:
    """A model's arrays in arenas, filled at random, and its steps by either program."""

    def __init__(
        self, model: Model, settings: Settings, n_envs: int = 3, seed: int = 0, modes: Modes | None = None
    ) -> None:
        self.model = model
        self.settings = settings
        self.runs = runs_of(settings)
        self.layouts = [ArenaLayout.from_sizes(name, arena_arrays(name, model, settings)) for name in ARENAS]
        if modes is None:
            modes = [MODES[i % len(MODES)] for i in range(model.n_dofs)]
        start = arrays_for(model, settings, modes, n_envs)
        generator = np.random.default_rng(seed)
        self.arenas = {layout.name: np.zeros((layout.n_rows, n_envs)) for layout in self.layouts}
        self.arenas[UNIFORM] = self.arenas[UNIFORM][:, :1]
        arrays = self.arrays()
        for name, values in arrays.items():
            values[:] = start[name]
        arrays["qpos"][:] = model_coordinates(model, generator, n_envs)
        moved = {"vel", "command", "ctrl", "gravity", "cfrc_applied_ang", "cfrc_applied_vel"}
        for name in sorted(moved.intersection(arrays)):
            arrays[name][:] = generator.uniform(-1, 1, arrays[name].shape)
        if settings.input_mode is InputMode.MIXED:
            arrays["ctrl_mode"][:] = generator.integers(0, 3, arrays["ctrl_mode"].shape)
        for name in sorted(({"kp", "kv", *settings.per_env} - {"gravity"}).intersection(arrays)):
            arrays[name][:] = generator.uniform(0.01, 0.1, arrays[name].shape)
        is_commanded = np.array([mode is not ControlMode.ACTUATOR for mode in modes], dtype=float)
        for name in CONTROL_GAINS:
            arrays[name][:] = is_commanded[:, None] * generator.uniform(0.1, 1.0, arrays[name].shape)

    def arrays(self) -> dict[str, Array]:
        """Views of the arenas."""
        return {
            name: self.arenas[layout.name][start : start + count]
            for layout in self.layouts
            for name, (start, count) in layout.rows.items()
        }

    @property
    def places(self) -> dict[str, ArenaOffset]:
        """Where the arrays are."""
        return {name: place for layout in self.layouts for name, place in layout.offsets().items()}

    def rolled(self, budget: int) -> Program:
        """The program with loops."""
        return trace_looped_step(self.model, self.settings, self.places, budget)

    def difference(self, *budgets: int, steps: int = 2) -> float:
        """The greatest difference of any number of the state after some steps, unrolled and rolled in some ways."""
        start = {name: arena.copy() for name, arena in self.arenas.items()}
        expected = {name: values.copy() for name, values in self.arrays().items()}
        program = unrolled(self.model, self.settings)
        for _ in range(steps * self.runs):
            expected |= interpret(program, expected)
        worst = 0.0
        for budget in budgets:
            for name, arena in self.arenas.items():
                arena[:] = start[name]
            interpret_in_place(self.rolled(budget), self.arenas, self.places, steps * self.runs)
            found = self.arrays()
            assert np.isfinite(found["vel"]).all()
            off = [float(np.abs(expected[name] - found[name]).max(initial=0.0)) for name in self.layouts[0].rows]
            worst = max(worst, *off)
        return worst


Build = Callable[[], Model]
