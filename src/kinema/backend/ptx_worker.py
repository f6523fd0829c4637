"""A process that assembles: PTX comes in, machine code of a GPU (a cubin) goes out, until there is no more input.

The CUDA driver assembles one module at a time in a process, so that several processes are faster. The number of the GPU
is the first argument. It imports nothing of Kinema but the format of requests, which lies beside it.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
from typing import Any

from llvm_worker import REQUEST, answer  # type: ignore[import-not-found]  both are started as scripts

LOG_BUFFER, LOG_SIZE, OPTIMISATION = 5, 6, 7
"""CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES and CU_JIT_OPTIMIZATION_LEVEL."""
PTX = 1
"""CU_JIT_INPUT_PTX."""
ROOM = 8192


def main() -> None:
    """Serve requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked decides when to stop
    cuda = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    checked(cuda.cuInit(0), "cuInit")
    checked(cuda.cuDeviceGet(ctypes.byref(device), int(sys.argv[1])), "cuDeviceGet")
    checked(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "cuDevicePrimaryCtxRetain")
    checked(cuda.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent")
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        level, _, size = REQUEST.unpack(head)
        try:
            answer(answers, True, assembled(cuda, requests.read(size), level))
        except RuntimeError as error:
            answer(answers, False, str(error).encode())


def assembled(cuda: Any, code: bytes, level: int) -> bytes:
    """The cubin of a module, at an optimisation level of the driver (0 to 4)."""
    state, found, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    log = ctypes.create_string_buffer(ROOM)
    options = (ctypes.c_int * 3)(LOG_BUFFER, LOG_SIZE, OPTIMISATION)
    values = (ctypes.c_void_p * 3)(ctypes.addressof(log), ROOM, level)
    checked(cuda.cuLinkCreate_v2(3, options, values, ctypes.byref(state)), "cuLinkCreate")
    try:
        text = code + b"\0"
        length = ctypes.c_size_t(len(text))
        checked(cuda.cuLinkAddData_v2(state, PTX, text, length, b"kinema", 0, None, None), "cuLinkAddData", log)
        checked(cuda.cuLinkComplete(state, ctypes.byref(found), ctypes.byref(size)), "cuLinkComplete", log)
        return ctypes.string_at(found, size.value)
    finally:
        cuda.cuLinkDestroy(state)


def checked(status: int, what: str, log: Any = None) -> None:
    """Raise where a call of the driver failed."""
    if status:
        said = "" if log is None else log.value.decode(errors="replace")
        raise RuntimeError(f"{what} failed with error {status} {said}".strip())


if __name__ == "__main__":
    try:
        with contextlib.suppress(BrokenPipeError):  # who asked has ended
            main()
    except (RuntimeError, OSError):  # no GPU for this process: who asked assembles by itself
        sys.exit(3)
