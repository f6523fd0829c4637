"""Code for a GPU: compiled by LLVM to PTX, assembled and launched by the driver of CUDA, among NVIDIA Warp's arrays."""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kinema.foundation import KinemaError
from kinema.trace import ENTRY

from .compilers import machine_code
from .devices import Device, warp, warp_lock

_BOUNDS = """!nvvm.annotations = !{{!1}}
!1 = !{{ptr @{entry}, !"maxntidx", i32 {block_dim}{more}}}
"""
_LOG, _LOG_SIZE = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and its size: where the driver says what it does not like."""
_ROOM = 8192
_SHARED, _REGISTERS, _CARVEOUT = 1, 4, 9
"""CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, NUM_REGS and PREFERRED_SHARED_MEMORY_CARVEOUT."""
_IN_COMMON = 25
"""Percent of the memory of a multiprocessor that all kernels ask for at least. A go2's need no more, and run side by
side: a step of 4,096 takes 3 % less."""
_AS_IT_LIKES = -1
"""What the driver takes for its own choice."""
WARP = 32
"""Threads of a block that is a warp, as that of a team is: there are as many as fit."""
QUARTERS, _REGISTERS_OF_QUARTER, _AT_A_TIME, _MOST_BLOCKS = 4, 16384, 8, 32
"""Of a multiprocessor: a warp runs in one of its quarters, whose registers are given to each thread by so many."""
BLOCKS = 4
"""That a multiprocessor runs at a time if their 64 threads take all the registers they can."""
_RESERVED, _GRAIN = 1024, 128
"""Bytes that the driver keeps of each block's, and of which it gives a multiple."""
STEPS = tuple(1024 * step for step in (8, 16, 32, 64, 100, 132, 164, 196, 228))
"""Bytes of a multiprocessor that threads can share; what is left is cache. A hint where it is another GPU."""
_ENOUGH = 0.9
"""Of the blocks that could run at a time: a larger cache is worth as much as the rest of them."""


def ptx(text: str, block_dim: int, n_blocks: int | None = None) -> bytes:
    """A module's text, compiled for blocks of so many threads, of which a multiprocessor has to have room for some."""
    more = f', !"minctasm", i32 {n_blocks}' if n_blocks else ""
    return machine_code(text + _BOUNDS.format(entry=ENTRY, block_dim=block_dim, more=more))


class GpuFunction:
    """A kernel that is loaded on a device."""

    def __init__(self, code: bytes, device: Device, block_dim: int, name: str = ENTRY) -> None:
        """Load a kernel, PTX or a cubin, that has a name (`named`)."""
        self._device = device
        self._block_dim = block_dim
        self.name = symbol_name(name)
        self._context = _context(device)
        self._module, self.handle = self._within(lambda: _loaded(code, self.name))
        weakref.finalize(self, _unload, self._context, self._module).atexit = False
        self.room = self._within(lambda: _room(self.handle, block_dim))
        """Percent of the memory of a multiprocessor that its threads share; the rest is cache."""
        self.ask_for(self.room)

    def _within(self, do: Callable[[], Any]) -> Any:
        return _within(self._context, do)

    def ask_for(self, room: int) -> None:
        """Have so many percent shared: kernels beside each other ask for the same, as an idle one alone changes it."""
        self._within(lambda: _call("cuFuncSetAttribute", self.handle, _CARVEOUT, room))

    def attribute(self, number: int) -> int:
        """One of the driver's `CUfunction_attribute`s."""
        return self._within(lambda: _attribute(self.handle, number))

    @property
    def n_resident(self) -> int:
        """How many of its blocks run at a time."""
        found = ctypes.c_int()
        told = (ctypes.byref(found), self.handle, self._block_dim, ctypes.c_size_t(0))
        self._within(lambda: _call("cuOccupancyMaxActiveBlocksPerMultiprocessor", *told))
        return max(found.value, 1) * self._device.n_multiprocessors

    def record(self, n_blocks: int, arrays: Sequence[Any], numbers: Sequence[int]) -> Callable[[], None]:
        """A launch that can be repeated, on the stream that is Warp's then: a graph may be capturing it."""
        values = [*(ctypes.c_void_p(a.ptr) for a in arrays), *map(ctypes.c_int32, numbers)]
        places = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        device, launch_kernel = warp().get_device(self._device.name), _driver().cuLaunchKernel

        def launch(_kept: Sequence[Any] = (*arrays, *values)) -> None:
            stream = ctypes.c_void_p(device.stream.cuda_stream)
            self._within(
                lambda: _checked(
                    launch_kernel(self.handle, n_blocks, 1, 1, self._block_dim, 1, 1, 0, stream, places, None),
                    "cuLaunchKernel",
                )
            )

        return launch


def is_capturing(device: Device) -> bool:
    """Whether launches go into a graph just now, whoever makes it."""
    status, stream = ctypes.c_int(), ctypes.c_void_p(warp().get_device(device.name).stream.cuda_stream)
    _within(_context(device), lambda: _call("cuStreamIsCapturing", stream, ctypes.byref(status)))
    return status.value == 1


def _context(device: Device) -> ctypes.c_void_p:
    with warp_lock:
        return ctypes.c_void_p(warp().get_device(device.name).context)


def _within(context: ctypes.c_void_p, do: Callable[[], Any]) -> Any:
    """Done in Warp's context: any other, or none, may be the thread's own."""
    _call("cuCtxPushCurrent_v2", context)
    try:
        return do()
    finally:
        _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def named(code: bytes, name: str) -> bytes:
    """PTX of a kernel under the name that profilers show."""
    return re.sub(rf"\b{ENTRY}\b".encode(), symbol_name(name).encode(), code)


def symbol_name(name: str) -> str:
    """A name as PTX allows it."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII)


def _unload(context: ctypes.c_void_p, module: ctypes.c_void_p) -> None:
    """Free the code of a kernel that nobody uses any more."""
    with contextlib.suppress(Exception):  # the context may be gone at the end of the process
        _within(context, lambda: _call("cuModuleUnload", module))


def _loaded(code: bytes, name: str) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """A module and its kernel; what it needs is there before anything is captured."""
    module, function, log = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(_ROOM)
    options = (ctypes.c_int * 2)(_LOG, _LOG_SIZE)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _ROOM)
    status = _driver().cuModuleLoadDataEx(ctypes.byref(module), code + b"\0", 2, options, values)
    _checked(status, "the assembler of the CUDA driver", log.value.decode(errors="replace").strip())
    _call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    _attribute(function, _REGISTERS)
    return module, function


def _room(function: ctypes.c_void_p, block_dim: int) -> int:
    """Memory that the threads of a block share, for nearly as many blocks as registers suffice for [%].

    Left to itself the driver took so much for a humanoid that its registers spilled beside the cache: a fifth slower.
    """
    own = _attribute(function, _SHARED)
    if block_dim > WARP:
        return max(_percent(own, BLOCKS) if own else 0, _IN_COMMON)
    return _percent(own, _n_warps(_attribute(function, _REGISTERS))) if own else _AS_IT_LIKES


def _percent(own: int, most: int) -> int:
    """What to ask for, for blocks with so many bytes each: the least that is enough.

    A little more than the step before: of what is nearly a step the driver made the next one.
    """
    wanted = _ENOUGH * min(n_blocks(own, STEPS[-1]), most)
    number = next((i for i, step in enumerate(STEPS) if min(n_blocks(own, step), most) >= wanted))
    before = STEPS[number - 1] if number else 0
    return 100 * (2 * before + STEPS[number]) // (3 * STEPS[-1])


def n_blocks(own: int, shared: int) -> int:
    """How many blocks with so many bytes each there is room for."""
    return shared // (-(-(own + _RESERVED) // _GRAIN) * _GRAIN)


def _n_warps(registers: int) -> int:
    """Blocks of a warp that a multiprocessor runs at a time, if each of their threads has so many registers."""
    given = -(-max(registers, 1) // _AT_A_TIME) * _AT_A_TIME
    return min(QUARTERS * (_REGISTERS_OF_QUARTER // (given * WARP)), _MOST_BLOCKS)


def _attribute(function: ctypes.c_void_p, number: int) -> int:
    value = ctypes.c_int()
    _call("cuFuncGetAttribute", ctypes.byref(value), number, function)
    return value.value


@cache
def driver_version() -> int:
    """Of the CUDA driver, such as 13000."""
    found = ctypes.c_int()
    _call("cuDriverGetVersion", ctypes.byref(found))
    return found.value


@cache
def _driver() -> Any:
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise KinemaError(f"the driver of CUDA, {name}, cannot be loaded: {error}") from None


def _call(name: str, *arguments: Any) -> None:
    _checked(getattr(_driver(), name)(*arguments), name)


def _checked(status: int, what: str, log: str = "") -> None:
    """An error of the driver, in its words."""
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        reason = (text.value or b"no reason").decode(errors="replace")
        raise KinemaError(f"{what} failed: {reason} (error {status}){': ' if log else ''}{log}")
