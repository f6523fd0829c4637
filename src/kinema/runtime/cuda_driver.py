"""CUDA driver API: PTX with launch bounds, loading and launching of kernels, occupancy and shared-memory carve-out."""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kinema.codegen import ENTRY_FUNCTION
from kinema.core import KinemaError

from .devices import Device, warp, warp_lock
from .llvm_compiler import OptLevel, compile_module

_LAUNCH_BOUNDS = """!nvvm.annotations = !{{!1}}
!1 = !{{ptr @{entry}, !"maxntidx", i32 {block_dim}{min_blocks}}}
"""
"""NVVM metadata of the launch bounds of a kernel."""
_JIT_LOG_BUFFER, _JIT_LOG_BUFFER_SIZE = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES."""
_LOG_CAPACITY = 8192
_ATTR_SHARED_SIZE, _ATTR_NUM_REGISTERS, _ATTR_SHARED_CARVEOUT = 1, 4, 9
"""CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, NUM_REGS and PREFERRED_SHARED_MEMORY_CARVEOUT."""
_MIN_CARVEOUT_PERCENT = 25
"""Smallest shared-memory carve-out [% of a multiprocessor] of multi-warp kernels: equal values let kernels run
concurrently."""
_DEFAULT_CARVEOUT = -1
"""CU_SHAREDMEM_CARVEOUT_DEFAULT: the driver chooses."""
WARP_SIZE = 32
"""Threads of a warp."""
SM_PARTITIONS, _REGISTERS_PER_SM_PARTITION, _REGISTER_GRANULARITY, _MAX_BLOCKS_PER_SM = 4, 16384, 8, 32
"""Limits of a multiprocessor (SM): sub-partitions, registers per sub-partition, register allocation granularity per
thread, resident blocks."""
FULL_REGISTER_BLOCKS = 4
"""Resident blocks of 64 threads per multiprocessor if each thread uses the maximum number of registers."""
_RESERVED_SHARED_BYTES, _SHARED_GRANULARITY = 1024, 128
"""Shared memory reserved by the driver per block, and allocation granularity [bytes]."""
CARVEOUT_STEPS = tuple(1024 * step for step in (8, 16, 32, 64, 100, 132, 164, 196, 228))
"""Possible sizes of the shared-memory carve-out per multiprocessor [bytes] (Hopper); the rest is L1 cache."""
_OCCUPANCY_FRACTION = 0.9
"""Fraction of the maximum occupancy that the carve-out must allow: the rest is worth less than a larger L1 cache."""


def compile_ptx(
    llvm_ir: str, block_dim: int, min_blocks_per_sm: int | None = None, level: OptLevel = OptLevel.OPTIMISED
) -> bytes:
    """Compile an LLVM module to PTX with launch bounds.

    The bounds are the threads per block and the minimum of resident blocks per multiprocessor (None for no minimum).
    `level` is the optimisation level of LLVM; the assembler optimises in any case.
    """
    min_blocks = f', !"minctasm", i32 {min_blocks_per_sm}' if min_blocks_per_sm else ""
    bounds = _LAUNCH_BOUNDS.format(entry=ENTRY_FUNCTION, block_dim=block_dim, min_blocks=min_blocks)
    return compile_module(llvm_ir + bounds, level)


class GpuFunction:
    """A kernel function loaded on a GPU."""

    def __init__(self, code: bytes, device: Device, block_dim: int, name: str = ENTRY_FUNCTION) -> None:
        """Load a kernel from PTX or a cubin and set its shared-memory carve-out.

        Args:
            code: PTX or cubin that defines the kernel.
            device: GPU.
            block_dim: threads per block.
            name: name of the kernel (made a valid symbol by `symbol_name`).
        """
        self._device = device
        self._block_dim = block_dim
        self.name = symbol_name(name)
        self._context = _context(device)
        self._module, self.handle = self._in_context(lambda: _load_module(code, self.name))
        weakref.finalize(self, _unload_module, self._context, self._module).atexit = False
        self.carveout_percent = self._in_context(lambda: _choose_carveout(self.handle, block_dim))
        """Preferred shared-memory carve-out [% of the L1 and shared memory of a multiprocessor]."""
        self.set_carveout(self.carveout_percent)

    def _in_context(self, action: Callable[[], Any]) -> Any:
        return _in_context(self._context, action)

    def set_carveout(self, percent: int) -> None:
        """Set the shared-memory carve-out [%].

        Concurrent kernels need equal values: only an idle multiprocessor changes it.
        """
        self._in_context(lambda: _call_driver("cuFuncSetAttribute", self.handle, _ATTR_SHARED_CARVEOUT, percent))

    def attribute(self, attribute_id: int) -> int:
        """Value of a `CUfunction_attribute` of the kernel."""
        return self._in_context(lambda: _attribute(self.handle, attribute_id))

    @property
    def max_resident_blocks(self) -> int:
        """Number of blocks of the kernel that are resident on the whole GPU at a time."""
        n_blocks = ctypes.c_int()
        arguments = (ctypes.byref(n_blocks), self.handle, self._block_dim, ctypes.c_size_t(0))
        self._in_context(lambda: _call_driver("cuOccupancyMaxActiveBlocksPerMultiprocessor", *arguments))
        return max(n_blocks.value, 1) * self._device.n_multiprocessors

    def prepare_launch(self, n_blocks: int, arrays: Sequence[Any], integers: Sequence[int]) -> Callable[[], None]:
        """Prepare a repeatable launch of the kernel.

        Args:
            n_blocks: grid size.
            arrays: device arrays, passed as pointers; kept alive by the returned function.
            integers: int32 arguments after the pointers.

        Returns:
            A function that launches the kernel on the current Warp stream (which may be capturing a CUDA graph).
        """
        values = [*(ctypes.c_void_p(array.ptr) for array in arrays), *map(ctypes.c_int32, integers)]
        argument_pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        device, launch_kernel = warp().get_device(self._device.name), _driver().cuLaunchKernel

        def launch(_keep_alive: Sequence[Any] = (*arrays, *values)) -> None:
            """Launch the kernel on the current Warp stream."""
            stream = ctypes.c_void_p(device.stream.cuda_stream)
            self._in_context(
                lambda: _check_status(
                    launch_kernel(
                        self.handle, n_blocks, 1, 1, self._block_dim, 1, 1, 0, stream, argument_pointers, None
                    ),
                    "cuLaunchKernel",
                )
            )

        return launch


def is_capturing(device: Device) -> bool:
    """Whether the current Warp stream of a device is capturing a CUDA graph."""
    status, stream = ctypes.c_int(), ctypes.c_void_p(warp().get_device(device.name).stream.cuda_stream)
    _in_context(_context(device), lambda: _call_driver("cuStreamIsCapturing", stream, ctypes.byref(status)))
    return status.value == 1


def _context(device: Device) -> ctypes.c_void_p:
    with warp_lock:
        return ctypes.c_void_p(warp().get_device(device.name).context)


def _in_context(context: ctypes.c_void_p, action: Callable[[], Any]) -> Any:
    """Run a function with a CUDA context (Warp's) current on this thread, restoring the previous one."""
    _call_driver("cuCtxPushCurrent_v2", context)
    try:
        return action()
    finally:
        _call_driver("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def rename_kernel(ptx: bytes, name: str) -> bytes:
    """PTX with the entry function renamed to the name that profilers show."""
    return re.sub(rf"\b{ENTRY_FUNCTION}\b".encode(), symbol_name(name).encode(), ptx)


def symbol_name(name: str) -> str:
    """A name with all characters that PTX does not allow replaced by underscores."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII)


def _unload_module(context: ctypes.c_void_p, module: ctypes.c_void_p) -> None:
    """Unload a CUDA module; errors are ignored, as the context may be gone at process exit."""
    with contextlib.suppress(Exception):
        _in_context(context, lambda: _call_driver("cuModuleUnload", module))


def _load_module(code: bytes, name: str) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    """Load PTX or a cubin and look up a kernel; returns the CUDA module and function handles.

    Lazily loaded code is loaded at once (by querying an attribute), as loading is not possible during graph capture.
    """
    module, function, log = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(_LOG_CAPACITY)
    options = (ctypes.c_int * 2)(_JIT_LOG_BUFFER, _JIT_LOG_BUFFER_SIZE)
    option_values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_CAPACITY)
    status = _driver().cuModuleLoadDataEx(ctypes.byref(module), code + b"\0", 2, options, option_values)
    _check_status(status, "the assembler of the CUDA driver", log.value.decode(errors="replace").strip())
    _call_driver("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    _attribute(function, _ATTR_NUM_REGISTERS)
    return module, function


def _choose_carveout(function: ctypes.c_void_p, block_dim: int) -> int:
    """Shared-memory carve-out [%] for nearly as many resident blocks as the registers of the kernel allow.

    The driver's own choice can be larger than needed, which leaves too little L1 cache for spilled registers (20 %
    slower for a humanoid). At least `_MIN_CARVEOUT_PERCENT` for blocks of several warps; -1 (the driver's choice) for
    single-warp blocks without shared memory.
    """
    shared_bytes = _attribute(function, _ATTR_SHARED_SIZE)
    if block_dim > WARP_SIZE:
        return max(_carveout_percent(shared_bytes, FULL_REGISTER_BLOCKS) if shared_bytes else 0, _MIN_CARVEOUT_PERCENT)
    return (
        _carveout_percent(shared_bytes, _warps_fitting(_attribute(function, _ATTR_NUM_REGISTERS)))
        if shared_bytes
        else _DEFAULT_CARVEOUT
    )


def _carveout_percent(bytes_per_block: int, max_blocks: int) -> int:
    """Smallest carve-out [%] that allows 90 % of the attainable occupancy of blocks of `bytes_per_block` shared memory.

    The value lies a third of the way from the next smaller step to the chosen one: near a step the driver rounds up.
    """
    wanted = _OCCUPANCY_FRACTION * min(blocks_fitting(bytes_per_block, CARVEOUT_STEPS[-1]), max_blocks)
    i_step = next(
        (i for i, step in enumerate(CARVEOUT_STEPS) if min(blocks_fitting(bytes_per_block, step), max_blocks) >= wanted)
    )
    previous = CARVEOUT_STEPS[i_step - 1] if i_step else 0
    return 100 * (2 * previous + CARVEOUT_STEPS[i_step]) // (3 * CARVEOUT_STEPS[-1])


def blocks_fitting(bytes_per_block: int, shared_bytes: int) -> int:
    """Number of thread blocks with the given shared memory that fit into a shared-memory carve-out [bytes]."""
    return shared_bytes // (-(-(bytes_per_block + _RESERVED_SHARED_BYTES) // _SHARED_GRANULARITY) * _SHARED_GRANULARITY)


def _warps_fitting(registers_per_thread: int) -> int:
    """Number of single-warp blocks resident on a multiprocessor for a given number of registers per thread."""
    allocated = -(-max(registers_per_thread, 1) // _REGISTER_GRANULARITY) * _REGISTER_GRANULARITY
    return min(SM_PARTITIONS * (_REGISTERS_PER_SM_PARTITION // (allocated * WARP_SIZE)), _MAX_BLOCKS_PER_SM)


def _attribute(function: ctypes.c_void_p, attribute_id: int) -> int:
    value = ctypes.c_int()
    _call_driver("cuFuncGetAttribute", ctypes.byref(value), attribute_id, function)
    return value.value


@cache
def driver_version() -> int:
    """Version of the CUDA driver, such as 13000."""
    version = ctypes.c_int()
    _call_driver("cuDriverGetVersion", ctypes.byref(version))
    return version.value


@cache
def _driver() -> Any:
    """CUDA driver library, loaded by ctypes; KinemaError if it is missing."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise KinemaError(f"the CUDA driver {name} cannot be loaded: {error}") from None


def _call_driver(name: str, *arguments: Any) -> None:
    _check_status(getattr(_driver(), name)(*arguments), name)


def _check_status(status: int, call: str, log: str = "") -> None:
    """Raise KinemaError with the driver's error description (and assembler log) for a nonzero CUresult."""
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        reason = (text.value or b"no reason").decode(errors="replace")
        raise KinemaError(f"{call} failed: {reason} (error {status}){': ' if log else ''}{log}")
