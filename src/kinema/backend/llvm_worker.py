"""A process that compiles: LLVM IR comes in, object code, assembly or PTX goes out, until there is no more input.

It runs beside the program that asks, so that compiling can be interrupted, several modules can be compiled side by
side, and options of LLVM that are set here affect nobody else. It imports nothing of Kinema, and starts quickly.
"""

from __future__ import annotations

import contextlib
import signal
import struct
import sys
from functools import cache
from typing import Any, BinaryIO

OPTIONS = ("--disable-cgp",)
"""CodeGenPrepare helps code with many branches; on straight-line code its time grows with the square of the length."""
GPU = ("sm_60", "+ptx60")
"""The oldest architecture and PTX version that will do; the CUDA driver compiles PTX for the actual GPU."""
REQUEST = struct.Struct("<B?I")
"""Optimisation level, whether assembly is wanted instead of object code, and the length of the IR that follows."""
ANSWER = struct.Struct("<?I")
"""Whether it worked, and the length of the code or message that follows."""


def main() -> None:
    """Serve requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked decides when to stop
    import llvmlite.binding as llvm

    for option in OPTIONS:
        llvm.set_option("", option)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        level, assembly, size = REQUEST.unpack(head)
        text = requests.read(size).decode()
        try:
            answer(answers, True, compiled(text, level, assembly=assembly))
        except RuntimeError as error:
            answer(answers, False, str(error).encode())


def compiled(text: str, level: int, *, assembly: bool = False) -> bytes:
    """Object code or assembly; PTX where the target triple of the module is a GPU's."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    gpu = module.triple.startswith("nvptx")
    machine = gpu_machine(level) if gpu else host_machine(level)
    if "alloca" in text:
        options = llvm.create_pipeline_tuning_options()
        manager = llvm.create_new_module_pass_manager()
        manager.add_sroa_pass()
        manager.run(module, llvm.create_pass_builder(machine, options))
    return machine.emit_assembly(module).encode() if gpu or assembly else machine.emit_object(module)


@cache
def host_machine(level: int) -> Any:
    """The CPU of this computer."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the clock of timed programs
    target = llvm.Target.from_default_triple()
    # On x86 addresses are absolute: LLVM's loader takes the offset table of the first object file that is linked for
    # that of all others, so that there must be none.
    is_x86 = target.triple.startswith(("x86_64", "amd64"))
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        codemodel="large" if is_x86 else "jitdefault",
        reloc="static" if is_x86 else "pic",
        jit=True,
    )


@cache
def gpu_machine(level: int) -> Any:
    """Any NVIDIA GPU."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cpu, features = GPU
    return llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=cpu, features=features, opt=level)


def answer(stream: BinaryIO, worked: bool, payload: bytes) -> None:
    """Send one answer."""
    stream.write(ANSWER.pack(worked, len(payload)) + payload)
    stream.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # who asked has ended
        main()
