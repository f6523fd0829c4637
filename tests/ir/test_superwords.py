"""Packing of scalar code into SIMD vectors: the bits of scalar code, whatever the operands of the lanes are."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from kinema import ir
from kinema.codegen import Target, emit_cpu_modules
from kinema.codegen.superwords import WIDTHS
from kinema.ir import Program, Tracer, Value
from kinema.ir.optimise import fuse_multiply_add

from .arenas import Memory, kernel, launched, same_bits

N = 6
"""Lanes of a vector."""
MEMORY = Memory(state=[("x", 8 * N)], out=[("y", 4 * N)])


def matrix_product() -> Program:
    """Product of a matrix that is stored by columns with a vector, and dot product of both vectors."""
    tracer = Tracer()
    data = tracer.allocate_local(8 * N)
    tracer.write(data, [tracer.read("x", i) for i in range(8 * N)])
    tracer.new_basic_block()
    vector = [tracer.read(data, i) for i in range(N)]
    product: list[Value] = []
    for i in range(N):
        total: Value = 0.0
        for j in range(N):
            total = total + tracer.read(data, N + N * j + i) * vector[j]
        product.append(total)
    tracer.write(data, product, 7 * N)
    tracer.write(data, [sum((a * b for a, b in zip(product, vector, strict=True)), 0.0)])
    tracer.new_basic_block()
    tracer.write("y", [tracer.read(data, i) for i in (*range(7 * N, 8 * N), 0)])
    return tracer.build()


def random_program(seed: int, width: int) -> Program:
    """Random operations on vectors, of which single lanes are used by themselves, or replaced by something else."""
    draw, tracer = Random(seed), Tracer()
    start, stride = 8 * width, width + 1  # results are not adjacent, so that they are packed by themselves
    data = tracer.allocate_local(start + 4 * stride)
    tracer.write(data, [tracer.read("x", i) for i in range(start)])
    tracer.new_basic_block()
    vectors = [[tracer.read(data, width * k + i) for i in range(width)] for k in range(8)]
    for _ in range(draw.randint(4, 12)):
        a, b = draw.choice(vectors), draw.choice(vectors)
        scalar: Value = draw.choice([0.0, 1.0, -0.5, draw.choice(draw.choice(vectors))])
        kind = draw.randrange(9)
        if kind == 0:
            new = [x + y for x, y in zip(a, b, strict=True)]
        elif kind == 1:
            new = [x * scalar + y for x, y in zip(a, b, strict=True)]
        elif kind == 2:
            new = [y - x * y for x, y in zip(a, b, strict=True)]
        elif kind == 3:
            new = [y * x if draw.random() < 0.5 else x * y for x, y in zip(a, b, strict=True)]
        elif kind == 4:
            new = [-x if i != 2 else x for i, x in enumerate(a)]
        elif kind == 5:
            new = [ir.select(x, scalar, y, 0.0) for x, y in zip(a, b, strict=True)]
        elif kind == 6:
            new = [ir.minimum(x, scalar) - ir.maximum(x, y) for x, y in zip(a, b, strict=True)]
        elif kind == 7:
            new = [ir.sqrt(ir.absolute(x)) / (1.0 + ir.absolute(y)) for x, y in zip(a, b, strict=True)]
        else:
            new = [*a[1:], a[0] + draw.choice(b)]
        vectors.append(new)
    for k, vector in enumerate(draw.sample(vectors[8:], 4)):
        tracer.write(data, vector, start + k * stride)
    tracer.new_basic_block()
    tracer.write("y", [tracer.read(data, start + k * stride + i) for k in range(4) for i in range(width)])
    return tracer.build()


def text_of(program: Program) -> str:
    return "".join(emit_cpu_modules(program, MEMORY.places(), Target(), block_pass=fuse_multiply_add))


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_product_with_a_matrix_is_a_vector_instruction_per_column(precision: str) -> None:
    program = matrix_product()
    packed = replace(program, uses_superwords=True)
    text = text_of(packed)
    assert text.count("call <6 x float> @llvm.fma.v6f32") == N - 1
    assert "store <" not in text_of(program)
    numbers = MEMORY.whole({"state": np.random.default_rng(0).normal(size=(8 * N, 3))}, 3)
    runs = [launched(kernel(p, MEMORY, 1, precision), MEMORY, numbers, 3) for p in (program, packed)]
    same_bits(*runs)
    x = numbers["state"].T.reshape(3, 8, N)
    expected = np.einsum("eji,ej->ei", x[:, 1:7], x[:, 0])
    assert np.abs(runs[1]["out"][:N].T - expected).max() < 1e-5


@pytest.mark.parametrize("width", WIDTHS)
def test_random_programs_give_the_bits_of_scalar_code(width: int) -> None:
    numbers = MEMORY.whole({"state": np.random.default_rng(1).normal(size=(8 * N, 2))}, 2)
    n_packed = 0
    for seed in range(24):
        program = random_program(seed, width)
        packed = replace(program, uses_superwords=True)
        n_packed += f"store <{width} x" in text_of(packed)
        runs = [launched(kernel(p, MEMORY, 1), MEMORY, numbers, 2) for p in (program, packed)]
        same_bits(*runs)
    assert n_packed > 12


def test_blocks_that_store_twice_to_a_location_stay_scalar() -> None:
    tracer = Tracer()
    data = tracer.allocate_local(2 * N)
    tracer.write(data, [tracer.read("x", i) for i in range(N)])
    tracer.new_basic_block()
    first = [tracer.read(data, i) for i in range(N)]
    tracer.write(data, first, N, first[0])
    tracer.write(data, first, N, first[1])
    tracer.new_basic_block()
    tracer.write("y", [tracer.read(data, N + i) for i in range(N)])
    program = replace(tracer.build(), uses_superwords=True)
    assert "store <" not in text_of(program)
