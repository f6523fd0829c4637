"""Code for a GPU: compiled by LLVM to PTX, assembled and launched by the driver of CUDA, among NVIDIA Warp's arrays."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kinema.foundation import KinemaError
from kinema.trace import ENTRY

from .devices import Device, warp, warp_lock
from .host_code import machine_code

_BOUNDS = """!nvvm.annotations = !{{!1}}
!1 = !{{ptr @{entry}, !"maxntidx", i32 {block_dim}{more}}}
"""
_LOG, _LOG_SIZE = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and its size: where the driver says what it does not like."""
_ROOM = 8192
_SHARED, _REGISTERS, _CARVEOUT = 1, 4, 9
"""CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, NUM_REGS and PREFERRED_SHARED_MEMORY_CARVEOUT."""
WARP = 32
"""Threads of a block that is a warp, as that of a team is: there are as many as fit."""
_ALL_REGISTERS = 65536
"""Of a multiprocessor."""
BLOCKS = 4
"""That a multiprocessor runs at a time if their 64 threads take all the registers they can."""
_RESERVED, _OF_MULTIPROCESSOR = 1024, 228 * 1024
"""Bytes that the driver keeps of each block's, and that there are at most; a hint where it is another GPU."""


def ptx(text: str, block_dim: int, n_blocks: int | None = None) -> bytes:
    """A module's text, compiled for blocks of so many threads, of which a multiprocessor has to have room for some."""
    more = f', !"minctasm", i32 {n_blocks}' if n_blocks else ""
    return machine_code(text + _BOUNDS.format(entry=ENTRY, block_dim=block_dim, more=more), "ptx")


class GpuFunction:
    """A kernel that is loaded on a device."""

    def __init__(self, text: str, device: Device, block_dim: int, n_blocks: int | None = None) -> None:
        self._device = device
        self._block_dim = block_dim
        code = ptx(text, block_dim, n_blocks)
        self._context = _context(device)
        self.handle = self._within(lambda: _loaded(code))  # the driver may assemble several at a time
        self._within(lambda: _make_room(self.handle, block_dim))

    def _within(self, do: Callable[[], Any]) -> Any:
        return _within(self._context, do)

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


def _loaded(code: bytes) -> ctypes.c_void_p:
    """The kernel of a module; what it needs is there before anything is captured."""
    module, function, log = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(_ROOM)
    options = (ctypes.c_int * 2)(_LOG, _LOG_SIZE)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _ROOM)
    status = _driver().cuModuleLoadDataEx(ctypes.byref(module), code + b"\0", 2, options, values)
    _checked(status, "the assembler of the CUDA driver", log.value.decode(errors="replace").strip())
    _call("cuModuleGetFunction", ctypes.byref(function), module, ENTRY.encode())
    _attribute(function, _REGISTERS)
    return function


def _make_room(function: ctypes.c_void_p, block_dim: int) -> None:
    """Memory that the threads of a block share, for as many blocks as registers suffice for; the rest is cache.

    Left to itself the driver took so much for a humanoid that its registers spilled beside the cache: a fifth slower.
    """
    own = _attribute(function, _SHARED)
    if own:
        blocks = BLOCKS if block_dim > WARP else _ALL_REGISTERS // (_attribute(function, _REGISTERS) * block_dim)
        percent = -(-100 * blocks * (own + _RESERVED) // _OF_MULTIPROCESSOR)
        _call("cuFuncSetAttribute", function, _CARVEOUT, min(percent, 100))


def _attribute(function: ctypes.c_void_p, number: int) -> int:
    value = ctypes.c_int()
    _call("cuFuncGetAttribute", ctypes.byref(value), number, function)
    return value.value


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
