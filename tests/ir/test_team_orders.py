"""The order in which a team eliminates blocks of unknowns."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.codegen import EdgeRecords, MinimumDegreeOrdering, Target, WarpRegionConfig, emit_warp_kernel
from kinema.codegen.cuda.intrinsics.minimum_degree import BlockPair, minimum_degree_order
from kinema.ir import (
    SCRATCH,
    IntrinsicCall,
    MemoryLocation,
    Program,
    Tracer,
    interpret_in_place,
    round_up_to_4,
    split_into_kernels,
)
from kinema.runtime.cuda_driver import compile_ptx

from .arenas import Memory
from .test_teams import N_ENVS, SIZE, on_host, scheduled

ROOM_FOR_PAIRS, WIDTH = 24, 3
"""Records there is room for, and numbers of each: the last two say what it couples."""


class Order:
    """A program that tells the order of so many blocks, from records in its state."""

    def __init__(self, size: int, room: int) -> None:
        self.size, self.room = size, room
        self.sizes = {
            "count": 1,
            "records": ROOM_FOR_PAIRS * WIDTH,
            "blocks": 4 * size,
            "tiles": 2 * room,
            "between": size * size,
            "status": 2,
        }
        self.places: dict[str, int] = {}
        end = 0
        for name, count in self.sizes.items():
            self.places[name], end = end, end + count
        self.memory = Memory(state=[("x", end)])
        recorder = Tracer()
        with recorder.warp_region("all"):
            recorder.write(SCRATCH, [recorder.read("x", i) for i in range(end)])
            at = {name: MemoryLocation(SCRATCH, row) for name, row in self.places.items()}
            own = EdgeRecords(at["records"], WIDTH, at["count"], 1)
            outputs = {
                "block_info": at["blocks"],
                "tiles": at["tiles"],
                "tile_of_pair": at["between"],
                "status": at["status"],
            }
            ordering = MinimumDegreeOrdering(size, room, (own,), **outputs)
            recorder.add_statement(IntrinsicCall("test", ordering), {})
            recorder.write("x", [recorder.read(SCRATCH, i) for i in range(end)])
        self.program: Program = recorder.build(n_scratch=end, allocation_starts=sorted(self.places.values()))

    def numbers(self, pairs: list[list[BlockPair]]) -> np.ndarray:
        """What the state holds."""
        x = np.full((sum(self.sizes.values()), N_ENVS), -1.0)
        for e, own in enumerate(pairs):
            x[0, e] = len(own)
            for i, pair in enumerate(own):
                at = self.places["records"] + WIDTH * i + 1
                x[at : at + 2, e] = pair
        return x

    def part(self, x: np.ndarray, name: str) -> np.ndarray:
        """Some of it."""
        return x[self.places[name] :][: self.sizes[name]]


def some_pairs(rng: np.random.Generator, size: int) -> list[BlockPair]:
    count = int(rng.integers(ROOM_FOR_PAIRS))
    return [(int(a), int(b)) for a, b in rng.integers(size, size=(count, 2))]


@pytest.mark.parametrize(
    ("size", "room"),
    [
        (1, 1),
        (5, 10),
        (9, 36),
        (9, 4),
        (37, 30),
        *(pytest.param(*x, marks=pytest.mark.exhaustive) for x in ((65, 14), (70, 40))),
    ],
)
def test_a_team_finds_the_order(size: int, room: int) -> None:
    """That of the interpreter; more blocks than threads, than bits of a word or two, and than there is room for."""
    rng = np.random.default_rng(size + room)
    order, pairs = Order(size, room), [some_pairs(rng, size) for _ in range(N_ENVS)]
    x = order.numbers(pairs)
    plain = x.copy()
    interpret_in_place(order.program, {"state": plain}, order.memory.places())
    parts = [scheduled(p) for p in split_into_kernels(order.program, SIZE)]
    found = on_host(parts, order.memory, order.memory.whole({"state": x}, N_ENVS))["state"]
    np.testing.assert_array_equal(found, plain)
    for e, own in enumerate(pairs):
        blocks, tiles, _, missing = minimum_degree_order(size, room, own)
        np.testing.assert_array_equal(order.part(plain, "blocks")[:, e], blocks.ravel())
        np.testing.assert_array_equal(order.part(plain, "status")[:, e], [len(tiles), missing])
        assert missing or {tuple(sorted(p)) for p in own if p[0] != p[1]} <= {tuple(sorted(t)) for t in tiles}


def test_the_order_fills_all_that_is_filled() -> None:
    """Elimination in this order leaves nothing outside of the tiles; of a chain it fills nothing in."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        size = int(rng.integers(2, 12))
        pairs = some_pairs(rng, size)
        blocks, tiles, between, missing = minimum_degree_order(size, size * size, pairs)
        assert not missing
        a = 10.0 * np.eye(size)
        for i, j in pairs:
            a[i, j] = a[j, i] = a[i, j] + rng.uniform(0.1, 0.2)
        left = list(range(size))
        for k in blocks[:, 0].astype(int):
            left.remove(k)
            for i in left:
                assert (i, k) in between or not a[i, k]
            a[np.ix_(left, left)] -= np.outer(a[left, k], a[k, left]) / a[k, k]
        assert [tiles[i] for i in between.values()] == list(between)
    assert len(minimum_degree_order(20, 400, [(i, i + 1) for i in range(19)])[1]) == 19


@pytest.mark.parametrize("size", [20, pytest.param(50, marks=pytest.mark.benchmark)])
def test_the_compiler_takes_it(size: int) -> None:
    order = Order(size, 4 * size)
    (part,) = split_into_kernels(order.program, 32)
    room = WarpRegionConfig(32, round_up_to_4(part.program.n_scratch), round_up_to_4(part.n_global))
    code = compile_ptx(
        emit_warp_kernel(scheduled(part), order.memory.places(), Target("single", is_gpu=True), room), 32
    ).decode()
    assert "popc" in code
