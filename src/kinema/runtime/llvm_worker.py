"""Worker process that compiles LLVM IR to object code, assembly or PTX, or one module to an object file.

Requests and responses are exchanged through its standard input and output. A separate process can be interrupted,
compiles in parallel with others, and keeps LLVM's global options to itself. The script imports nothing from Kinema and
starts quickly.
"""

from __future__ import annotations

import contextlib
import json
import signal
import struct
import sys
from functools import cache
from typing import Any, BinaryIO

LLVM_OPTIONS = ("--disable-cgp",)
"""CodeGenPrepare improves branchy code; its time is quadratic in the length of straight-line code."""
PTX_TARGET = ("sm_60", "+ptx60")
"""Oldest suitable architecture and PTX version; the CUDA driver assembles PTX for the actual GPU."""
REQUEST = struct.Struct("<B?I")
"""Header of a request: optimisation level, whether assembly is wanted instead of object code, length of the LLVM IR."""
RESPONSE = struct.Struct("<?I")
"""Header of a response: success flag, length of the code or error message."""


def main() -> None:
    """Main loop of the worker process: compile modules requested on standard input, write results to standard output.

    Ends with the input. Interrupts are ignored, as the parent process handles them.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles interrupts
    import llvmlite.binding as llvm

    for option in LLVM_OPTIONS:
        llvm.set_option("", option)
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        level, assembly, size = REQUEST.unpack(head)
        llvm_ir = requests.read(size).decode()
        try:
            respond(responses, True, compile_llvm_ir(llvm_ir, level, assembly=assembly))
        except RuntimeError as error:
            respond(responses, False, str(error).encode())


def compile_llvm_ir(llvm_ir: str, level: int, *, assembly: bool = False) -> bytes:
    """Compile a module to object code, or to assembly if `assembly`; to PTX if its target triple is an NVIDIA GPU.

    Modules with stack allocations are first run through scalar replacement of aggregates (SROA), except those for a CPU
    at the lowest level, whose register allocator keeps no values across basic blocks.
    """
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(llvm_ir)
    module.verify()
    gpu = module.triple.startswith("nvptx")
    machine = gpu_target_machine(level) if gpu else host_target_machine(level)
    if "alloca" in llvm_ir and (gpu or level > 0):
        options = llvm.create_pipeline_tuning_options()
        manager = llvm.create_new_module_pass_manager()
        manager.add_sroa_pass()
        manager.run(module, llvm.create_pass_builder(machine, options))
    return machine.emit_assembly(module).encode() if gpu or assembly else machine.emit_object(module)


@cache
def host_target_machine(level: int) -> Any:
    """LLVM target machine of the host CPU with all its features, at an optimisation level."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # inline assembly of the clock in timed programs
    target = llvm.Target.from_default_triple()
    # Absolute addresses on x86: LLVM's loader uses the global offset table of the first linked object file for all
    # others, so that there must be none.
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
def gpu_target_machine(level: int) -> Any:
    """LLVM target machine for PTX of any NVIDIA GPU, at an optimisation level."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    cpu, features = PTX_TARGET
    return llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=cpu, features=features, opt=level)


def write_object_file(target: str) -> None:
    """Compile the module on standard input to an object file on standard output, for any target of LLVM.

    Runs LLVM's pipeline of optimisation level 2 without vectorisation, which is exact: floating-point operations are
    neither reordered nor contracted. LLVM reports the size of the stack frame of each function on standard error.

    Args:
        target: JSON object with the arguments of LLVM's target machine: `triple`, `cpu`, `features`, `reloc`, `abi`.
    """
    import llvmlite.binding as llvm

    for option in LLVM_OPTIONS:
        llvm.set_option("", option)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    wanted = json.loads(target)
    machine = llvm.Target.from_triple(wanted["triple"]).create_target_machine(
        cpu=wanted["cpu"], features=wanted["features"], opt=2, reloc=wanted["reloc"], abiname=wanted["abi"]
    )
    text = sys.stdin.buffer.read().decode()
    head = f'target triple = "{wanted["triple"]}"\ntarget datalayout = "{machine.target_data}"\n'
    module = llvm.parse_assembly(head + text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    sys.stdout.buffer.write(machine.emit_object(module))


def respond(stream: BinaryIO, succeeded: bool, payload: bytes) -> None:
    """Write one response: success flag and code or error message."""
    stream.write(RESPONSE.pack(succeeded, len(payload)) + payload)
    stream.flush()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):  # the parent process has ended
        main() if len(sys.argv) == 1 else write_object_file(sys.argv[1])
