"""A GPU without a GPU: the function that is emitted for one, compiled for the host, and called for each thread.

What only a GPU has becomes a function of this file: the numbers of a thread, meetings, an instruction for addresses.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from kinema.codegen.emit import POINTER_PARAMETERS
from kinema.codegen.memory import MAD_WIDE_ASM, WARP_SIZE
from kinema.runtime.host_jit import compile_host

_REGISTERS = ("tid", "ctaid", "ntid")
_HERE = {
    'target triple = "nvptx64-nvidia-cuda"': "",
    "ptx_kernel ": "",
    " addrspace(1)": "",
    " addrspace(3)": "",
    "addrspacecast": "bitcast",
    MAD_WIDE_ASM: "@test_wide",
    "declare float @llvm.nvvm.rcp.approx.ftz.f(float)": "",
    "@llvm.nvvm.rcp.approx.ftz.f": "@test_reciprocal",
    "@llvm.nvvm.barrier0": "@test_meet",
    "@llvm.nvvm.bar.warp.sync": "@test_wait",
    "@llvm.nvvm.shfl.sync.bfly.i32": "@test_pass",
    "@llvm.nvvm.shfl.sync.idx.i32": "@test_shuffle",
    "@llvm.nvvm.vote.ballot.sync": "@test_ballot",
    "@llvm.nvvm.read.ptx.sreg.lanemask.lt": "@test_below",
    **{f"@llvm.nvvm.read.ptx.sreg.{register}.x": f"@test_{register}" for register in _REGISTERS},
}
_WIDE_HERE = """
define internal ptr @test_wide(i32 %rows, i32 %pitch, ptr %base) {
  %r = sext i32 %rows to i64
  %p = sext i32 %pitch to i64
  %bytes = mul i64 %r, %p
  %at = getelementptr i8, ptr %base, i64 %bytes
  ret ptr %at
}
define internal float @test_reciprocal(float %x) {
  %y = fdiv float 1.0, %x
  ret float %y
}
"""
_BALLOT_HERE = """
declare i32 @test_votes(i32)
define internal i32 @test_ballot(i32 %mask, i1 %chosen) {
  %word = zext i1 %chosen to i32
  %votes = call i32 @test_votes(i32 %word)
  ret i32 %votes
}
"""
PATIENCE = 300
"""Seconds that a thread waits for the others: a busy machine may take its time."""
_thread = threading.local()


@cache
def _callbacks() -> list[Any]:
    """What the code calls; kept, as it is called by address."""
    number, meeting = ctypes.CFUNCTYPE(ctypes.c_int32), ctypes.CFUNCTYPE(None)
    made: dict[str, Any] = {r: number(lambda r=r: getattr(_thread, r)) for r in _REGISTERS}
    made["meet"] = meeting(lambda: _thread.barrier.wait(PATIENCE) and None)
    made["wait"] = ctypes.CFUNCTYPE(None, ctypes.c_int32)(lambda _: _thread.barrier.wait(PATIENCE) and None)
    made["pass"] = ctypes.CFUNCTYPE(*[ctypes.c_int32] * 5)(_pass)
    made["votes"] = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(_votes)
    made["below"] = number(lambda: (1 << _thread.lane) - 1)
    made["shuffle"] = ctypes.CFUNCTYPE(*[ctypes.c_int32] * 5)(_shuffle)
    for name, callback in made.items():
        address = ctypes.cast(callback, ctypes.c_void_p).value
        assert address is not None
        llvm.add_symbol(f"test_{name}", address)
    return list(made.values())


def _pass(_mask: int, value: int, offset: int, _edge: int) -> int:
    """What the thread has whose place in the team differs by an offset."""
    return _of_thread(value, _thread.lane ^ offset)


def _votes(chosen: int) -> int:
    """Which threads have chosen something, as bits."""
    _thread.passed[_thread.lane] = chosen
    _thread.barrier.wait(PATIENCE)
    votes = sum(own << lane for lane, own in enumerate(_thread.passed))
    _thread.barrier.wait(PATIENCE)
    return ctypes.c_int32(votes).value


def _shuffle(_mask: int, value: int, place: int, _edge: int) -> int:
    """What the thread at a place has."""
    return _of_thread(value, place)


def _of_thread(value: int, place: int) -> int:
    _thread.passed[_thread.lane] = value
    _thread.barrier.wait(PATIENCE)
    found = _thread.passed[place]
    _thread.barrier.wait(PATIENCE)
    return found


def run_warp_on_host(
    text: str, arrays: Mapping[str, np.ndarray], numbers: tuple[int, int, int, int], size: int
) -> None:
    """Every thread of every team; the first takes all environments but as many as there are others."""
    function = _compiled(text)
    pointers = [arrays[name].ctypes.data for name in (*POINTER_PARAMETERS, "memory")]
    stride, n_groups, advance, n_envs = numbers
    taken = arrays["memory"][:1].view(np.int32)

    def one(group: int, end: int, lane: int, passed: list[int], barrier: threading.Barrier) -> None:
        _thread.ctaid, _thread.ntid, _thread.tid = 0, WARP_SIZE, group * size + lane
        _thread.lane, _thread.passed, _thread.barrier = lane, passed, barrier
        function.run(*pointers, stride, n_envs + n_groups - end, advance, end, 0, 0)

    taken[0] = 0
    with ThreadPoolExecutor(size) as pool:
        for group in range(n_groups):
            # they run one after the other here: each gets the end of its range, where the next begins
            end, barrier, passed = n_envs - (n_groups - 1 - group), threading.Barrier(size), [0] * size
            for done in [pool.submit(one, group, end, lane, passed, barrier) for lane in range(size)]:
                done.result()
            assert taken[0] == (end + 1) % (n_envs + n_groups)
            taken[0] -= group + 1 < n_groups


def run_work_queue_on_host(
    text: str, arrays: Mapping[str, np.ndarray], numbers: tuple[int, int, int, int], n_blocks: int, n_warps: int
) -> None:
    """Every block, of so many warps, one after the other."""
    function = _compiled(text)
    pointers = [arrays[name].ctypes.data for name in (*POINTER_PARAMETERS, "memory")]

    def one(block: int, warp: int, lane: int, passed: list[int], barrier: threading.Barrier) -> None:
        _thread.ctaid, _thread.ntid, _thread.tid = block, WARP_SIZE * n_warps, WARP_SIZE * warp + lane
        _thread.lane, _thread.passed, _thread.barrier = lane, passed, barrier
        function.run(*pointers, *numbers, 0, 0)

    with ThreadPoolExecutor(WARP_SIZE) as pool:
        for block, warp in product(range(n_blocks), range(n_warps)):
            barrier, passed = threading.Barrier(WARP_SIZE), [0] * WARP_SIZE
            for done in [pool.submit(one, block, warp, lane, passed, barrier) for lane in range(WARP_SIZE)]:
                done.result()


def _compiled(text: str) -> Any:
    for gpu, host in _HERE.items():
        text = text.replace(gpu, host)
    _callbacks()
    votes = "declare i32 @test_ballot(i32, i1)"
    return compile_host(text.replace(votes, "") + _WIDE_HERE + (_BALLOT_HERE if votes in text else ""))


def run_on_host(
    text: str,
    arrays: Mapping[str, np.ndarray],
    numbers: tuple[int, int, int, int],
    n_blocks: int,
    shape: tuple[int, int],
) -> None:
    """Every thread of every block: of so many roles, and of so many environments (or of some of a warp)."""
    function = _compiled(text)
    pointers = [arrays[name].ctypes.data for name in POINTER_PARAMETERS]
    roles, width = shape

    def one(block: int, env: int, role: int, barrier: threading.Barrier) -> None:
        _thread.ctaid, _thread.ntid, _thread.barrier = block, width if roles == 1 else WARP_SIZE * roles, barrier
        _thread.tid = env + WARP_SIZE * role
        function.run(*pointers, *numbers, 0, 0)

    with ThreadPoolExecutor(roles) as pool:
        for block, env in product(range(n_blocks), range(width)):
            barrier = threading.Barrier(roles)
            for done in [pool.submit(one, block, env, role, barrier) for role in range(roles)]:
                done.result()
