"""A process that compiles: LLVM's text comes in, object code or PTX goes out, until there is nothing more.

It runs beside the program that asks, so that compiling can be interrupted, several programs can compile side by side,
and nothing that LLVM is told here reaches anybody else. It imports nothing of Kinema, and starts in a moment.
"""

from __future__ import annotations

import signal
import struct
import sys
from functools import cache
from typing import Any, BinaryIO

OPTIONS = ("--disable-cgp",)
"""A pass that prepares code with many branches; on straight lines it only takes time, which grows with their square."""
LEVEL = 2
GPU = ("sm_60", "+ptx60")
"""The oldest GPU and the oldest language for it that will do; the driver makes the best of it for the one there is."""


def main() -> None:
    """Serve requests: the length of a text and the text; answers are whether it worked, a length, and bytes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked decides when to stop
    import llvmlite.binding as llvm

    for option in OPTIONS:
        llvm.set_option("", option)
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(4):
        text = requests.read(struct.unpack("<I", head)[0]).decode()
        try:
            answer(answers, True, compiled(text))
        except RuntimeError as error:
            answer(answers, False, str(error).encode())


def compiled(text: str) -> bytes:
    """Object code, or PTX where the text says that it is for a GPU."""
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    gpu = module.triple.startswith("nvptx")
    machine = gpu_machine() if gpu else host_machine()
    if "alloca" in text:
        options = llvm.create_pipeline_tuning_options()
        manager = llvm.create_new_module_pass_manager()
        manager.add_sroa_pass()
        manager.run(module, llvm.create_pass_builder(machine, options))
    return machine.emit_assembly(module).encode() if gpu else machine.emit_object(module)


@cache
def host_machine() -> Any:
    """This computer's processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=LEVEL,
        codemodel="jitdefault",
        reloc="pic",
        jit=True,
    )


@cache
def gpu_machine() -> Any:
    """Any GPU."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cpu, features = GPU
    return llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=cpu, features=features, opt=LEVEL)


def answer(stream: BinaryIO, worked: bool, payload: bytes) -> None:
    """Send one answer."""
    stream.write(struct.pack("<?I", worked, len(payload)) + payload)
    stream.flush()


if __name__ == "__main__":
    main()
