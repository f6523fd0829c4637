"""Fields of models that are stepped in loops are computed in loops too: MuJoCo's numbers, from little code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.dynamics import Engine
from kinema.dynamics.queries import fields as fields_module
from kinema.dynamics.queries.field_catalog import NAMESPACES
from kinema.dynamics.queries.field_groups import FIELD_GROUPS
from kinema.ir import ForEachLoop, Program
from kinema.runtime import Kernel, ProgramSource, find_device
from kit.mjcf_side import Pair, load

from .arrays_for_tests import mjcf_settings, noting
from .mujoco_checks import OF_LINKS, OF_MOTION, Check, Fields, states_of
from .rolling import chain

NONE = (
    "sleep",
    "equalities",
    "equality wrenches",
    "couplings",
    "contacts",
    "laws of contacts",
    "sensors",
    "rows",
    "rows against rows",
)
"""What chains have none of."""

N_LINKS, N_STATES = 100, 7
MOST_INSTRUCTIONS = 20_000
SERVOS = "".join(f"<position joint='j{i}' kp='3' kv='0.1' forcerange='-1 1'/>" for i in range(0, N_LINKS, 3))
Compared = tuple[Pair, Fields, list[Any], dict[str, Program]]


def computed(engine: Engine) -> Fields:
    """All fields that are computed, and the Jacobian of the last link: (numbers, environments)."""
    result: Fields = {}
    for space, infos in NAMESPACES.items():
        for info in infos:
            if info.group in FIELD_GROUPS and not {space, info.group} & {*NONE}:
                values = getattr(getattr(engine.fields, space), info.name).numpy()
                rows = np.moveaxis(values, values.shape.index(N_STATES), -1)
                result[f"{info.group}.{info.name}"] = rows.reshape(-1, N_STATES)
    result["jacobian"] = engine.fields.jacobian(engine.model.n_links - 1).numpy().reshape(-1, N_STATES)
    return result


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Both sides of a chain of hinges, some of them with servos, and the program of each group of fields."""
    file: Path = tmp_path_factory.mktemp("chain") / "chain.xml"
    text = chain(N_LINKS, ("0 1 0", "1 0 0"), "damping='0.01' armature='0.002' stiffness='0.3' springref='0.2'")
    file.write_text(text.replace("</mujoco>", f"<actuator>{SERVOS}</actuator></mujoco>"), encoding="utf-8")
    pair = load(file)
    states = states_of(pair, N_STATES, seed=5)
    compiled: list[Program] = []

    def spy(source: ProgramSource, *arguments: Any, **more: Any) -> Kernel:
        compiled.append(source.trace())
        return Kernel(compiled[-1], *arguments, **more)

    settings = mjcf_settings(pair, external_forces=True)
    said: list[str] = []
    engine = Engine(pair.ours, settings, N_STATES, find_device("cpu"), precision="double", progress=noting(said))
    assert engine.uses_loops
    for name, values in pair.arrays(states).items():
        if name in engine.state.layout.rows or name in engine.controls.layout.rows:
            engine.array_view(name).assign(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fields_module, "Kernel", spy)
        found = computed(engine)
    groups = [line.split(" of ", 1)[1] for line in said if line.startswith("compiling the fields")]
    return pair, found, states, dict(zip(groups, compiled, strict=True))


@pytest.mark.parametrize("check", [*OF_LINKS, *OF_MOTION], ids=lambda check: check.__name__)
def test_fields_are_mujocos(compared: Compared, check: Check) -> None:
    """As for any robot, and to the same tolerances."""
    check(*compared[:3])


def test_fields_are_loops(compared: Compared) -> None:
    """Every group, the Jacobian among them: little code, and nothing of it outside of loops grows with the chain."""
    programs = compared[3]
    assert len(programs) == len(FIELD_GROUPS) - len(NONE) + 1
    for name, program in programs.items():
        assert program.for_each_loops, name
        assert program.n_instructions < MOST_INSTRUCTIONS, name
        outside = [block for block in program.body if not isinstance(block, ForEachLoop)]
        assert sum(len(line.instructions) for line in outside) < N_LINKS, name  # type: ignore[union-attr]
