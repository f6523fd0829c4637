"""The emitted text: sine and cosine within their bounds, the same bits on every width, and what becomes of a NaN."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from kinema.codegen import Target, emit_cpu_modules, emit_thread_kernel
from kinema.ir import (
    UNIFORM,
    ArenaOffset,
    Program,
    Tape,
    absolute,
    cos,
    interpret,
    maximum,
    minimum,
    program_from_tape,
    sin,
)
from kinema.runtime import Arena, ArenaLayout, Kernel, LaunchArguments, find_device

DTYPES = {"single": np.float32, "double": np.float64}
BOUNDS = {"single": (1.0e4, 1.0e-7), "double": (1.0e6, 2.0e-16)}
"""Largest angle [rad], and how far off the results may be there."""
N_SAMPLES = 400_000


@cache
def program() -> Program:
    tape = Tape()
    x, y = tape.inputs("x", 2)
    return program_from_tape(
        tape,
        {
            "s": [sin(x), cos(x), sin(y)],
            "m": [minimum(x, y), maximum(x, y), absolute(x), minimum(x, 1.0), maximum(x, 1.0)],
        },
    )


@cache
def kernel(precision: str, lanes: int) -> Kernel:
    layout = ArenaLayout.from_sizes("out", program().outputs.items())
    places = {**ArenaLayout.from_sizes("state", [("x", 2)]).offsets(), **layout.offsets()}
    return Kernel(program(), places, find_device("cpu"), precision, lanes=lanes)


def run(x: np.ndarray, precision: str, lanes: int) -> dict[str, np.ndarray]:
    """The program on two rows of numbers, as compiled for the CPU."""
    device = find_device("cpu")
    state = Arena(ArenaLayout.from_sizes("state", [("x", 2)]), x.shape[1], device, precision)
    out = Arena(ArenaLayout.from_sizes("out", program().outputs.items()), x.shape[1], device, precision)
    controls = Arena(ArenaLayout("controls"), x.shape[1], device, precision)
    shared = Arena(ArenaLayout(UNIFORM), x.shape[1], device, precision)
    state.view("x").assign(x)
    kernel(precision, lanes).prepare_launch(LaunchArguments(state, controls.data, out, shared))()
    return {name: out.view(name).numpy().copy() for name in ("s", "m")}


def samples(precision: str) -> np.ndarray:
    """Angles everywhere, near zero, and as near to multiples of a right angle as numbers get."""
    generator = np.random.default_rng(0)
    largest = BOUNDS[precision][0]
    everywhere = generator.uniform(-largest, largest, N_SAMPLES // 4)
    usual = generator.uniform(-10, 10, N_SAMPLES // 4)
    small = generator.choice([-1, 1], N_SAMPLES // 4) * 10.0 ** generator.uniform(-12, 0, N_SAMPLES // 4)
    turns = generator.integers(-int(largest * 0.63), int(largest * 0.63), N_SAMPLES // 4) * (np.pi / 2)
    return np.concatenate([everywhere, usual, small, turns, [0.0]]).astype(DTYPES[precision])


@pytest.mark.parametrize("precision", ["single", "double"])
def test_sine_and_cosine(precision: str) -> None:
    """Within the bound that the emitter's text promises, on dense samples."""
    x = samples(precision)
    found = run(np.array([x, x]), precision, 2 if precision == "double" else 4)["s"]
    exact = x.astype(np.longdouble)
    assert np.finfo(np.longdouble).eps < 1e-18
    errors = [float(np.abs(row - f(exact)).max()) for row, f in zip(found, (np.sin, np.cos, np.sin), strict=True)]
    print(precision, errors)
    assert max(errors) <= BOUNDS[precision][1]
    np.testing.assert_array_equal(found[0], found[2], "alone or with its cosine, a sine is the same")


def test_small_angles_keep_their_digits() -> None:
    """Near zero the error is relative: the sine of a tiny angle is the angle."""
    x = np.array([[1e-30, -3e-20, 1e-9, 0.0]] * 2)
    np.testing.assert_allclose(run(x, "double", 2)["s"][0], x[0], rtol=1e-15)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_width_does_not_matter(precision: str, lanes: int) -> None:
    """Bit for bit the same for one number at a time and for several, also where they do not fill a vector."""
    x = samples(precision)[::13]
    both = np.array([x, x[::-1]])
    usual = run(both, precision, 2 if precision == "double" else 4)
    other = run(both, precision, lanes)
    for name, values in usual.items():
        np.testing.assert_array_equal(values, other[name])


def test_not_a_number() -> None:
    """Compiled, interpreted and on plain floats alike: the first operand's NaN stays, the second's is passed over."""
    nan = float("nan")
    x = np.array([[nan, 1.0, nan, 2.0, -3.0], [1.0, nan, nan, 3.0, -2.0]])
    compiled = run(x, "double", 2)["m"]
    np.testing.assert_array_equal(interpret(program(), {"x": x})["m"], compiled)
    plain = [[minimum(a, b), maximum(a, b), absolute(a), minimum(a, 1.0), maximum(a, 1.0)] for a, b in x.T.tolist()]
    np.testing.assert_array_equal(np.array(plain).T, compiled)
    assert np.isnan(compiled[0, 0])
    assert compiled[0, 1] == 1.0


def test_the_sign_of_a_zero() -> None:
    """An absolute value has none: what is divided by it does not change sides."""
    x = np.array([[-0.0, 0.0, -2.0], [1.0, 1.0, 1.0]])
    plain = np.array([absolute(float(value)) for value in x[0]], dtype=float)
    assert not np.signbit(plain).any()
    assert not np.signbit(interpret(program(), {"x": x})["m"][2]).any()
    for lanes in (1, 2):
        assert not np.signbit(run(x, "double", lanes)["m"][2]).any()


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_text_is_the_same_every_time(precision: str) -> None:
    """So that what was compiled before is found again."""
    places = {"x": ArenaOffset("state", 0), "s": ArenaOffset("out", 0), "m": ArenaOffset("out", 3)}
    host, gpu = set(), set()
    for _ in range(2):
        program.cache_clear()
        host.add(emit_cpu_modules(program(), places, Target(precision, 4)))
        gpu.add(emit_thread_kernel([program()], places, Target(precision, is_gpu=True)))
    assert len(host) == len(gpu) == 1


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_processor_without_fused_products(lanes: int) -> None:
    """Where there is no such instruction none is asked for: it would be a call of a slow function."""
    places = {"x": ArenaOffset("state", 0), "s": ArenaOffset("out", 0), "m": ArenaOffset("out", 3)}
    for fused in (True, False):
        (text,) = emit_cpu_modules(program(), places, Target("double", lanes, has_fma=fused))
        assert ("call" in text and "@llvm.fma" in text.split("define")[1]) == fused
