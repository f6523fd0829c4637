"""Worker process that assembles PTX to a cubin with the CUDA driver.

Requests and responses are exchanged through its standard input and output, in the format of `llvm_worker`. The driver
assembles one module at a time per process, so that several processes are faster. The first argument is the index of the
GPU. The script imports nothing from Kinema but `llvm_worker`, which is in the same folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
from typing import Any

from llvm_worker import REQUEST, respond  # type: ignore[import-not-found]  both run as scripts

LOG_BUFFER, LOG_SIZE, OPTIMISATION = 5, 6, 7
"""CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES and CU_JIT_OPTIMIZATION_LEVEL."""
PTX = 1
"""CU_JIT_INPUT_PTX."""
LOG_CAPACITY = 8192


def main() -> None:
    """Main loop of the worker process: create a CUDA context on the GPU given by the first argument, serve requests.

    PTX modules are read from standard input and cubins written to standard output; ends with the input.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles interrupts
    cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check_driver_call(cuda.cuInit(0), "cuInit")
    check_driver_call(cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[1])), "cuDeviceGet")
    check_driver_call(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    check_driver_call(cuda.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        level, _, size = REQUEST.unpack(head)
        try:
            respond(responses, True, assemble_ptx(cuda, requests.read(size), level))
        except RuntimeError as error:
            respond(responses, False, str(error).encode())


def assemble_ptx(cuda: Any, ptx: bytes, level: int) -> bytes:
    """Assemble a PTX module to a cubin at an optimisation level of the driver (0 to 4).

    RuntimeError with the log on failure.
    """
    link_state, cubin, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    log = ctypes.create_string_buffer(LOG_CAPACITY)
    options = (ctypes.c_int * 3)(LOG_BUFFER, LOG_SIZE, OPTIMISATION)
    values = (ctypes.c_void_p * 3)(ctypes.addressof(log), LOG_CAPACITY, level)
    check_driver_call(cuda.cuLinkCreate_v2(3, options, values, ctypes.byref(link_state)), "cuLinkCreate")
    try:
        source = ptx + b"\0"
        length = ctypes.c_size_t(len(source))
        check_driver_call(
            cuda.cuLinkAddData_v2(link_state, PTX, source, length, b"kinema", 0, None, None), "cuLinkAddData", log
        )
        check_driver_call(
            cuda.cuLinkComplete(link_state, ctypes.byref(cubin), ctypes.byref(size)), "cuLinkComplete", log
        )
        return ctypes.string_at(cubin, size.value)
    finally:
        cuda.cuLinkDestroy(link_state)


def check_driver_call(status: int, call: str, log: Any = None) -> None:
    """Raise RuntimeError with the assembler log for a nonzero CUresult."""
    if status:
        message = "" if log is None else log.value.decode(errors="replace")
        raise RuntimeError(f"{call} failed with error {status} {message}".strip())


if __name__ == "__main__":
    try:
        with contextlib.suppress(BrokenPipeError):  # the parent process has ended
            main()
    except (RuntimeError, OSError):  # no GPU for this process: the parent lets the driver assemble on loading
        sys.exit(3)
