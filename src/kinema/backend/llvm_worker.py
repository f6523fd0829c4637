"""A process that compiles: LLVM's text comes in, object code goes out, until there is nothing more.

It runs beside the program that asks, so that compiling can be interrupted, several programs can compile side by side,
and nothing that LLVM is told here reaches anybody else. It imports nothing of Kinema, and starts in a moment.
"""

from __future__ import annotations

import signal
import struct
import sys
from typing import BinaryIO

OPTIONS = ("--disable-cgp",)
"""A pass that prepares code with many branches; on straight lines it only takes time, which grows with their square."""
LEVEL = 2


def main() -> None:
    """Serve requests: the length of a text and the text; answers are whether it worked, a length, and bytes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who asked decides when to stop
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for option in OPTIONS:
        llvm.set_option("", option)
    features = llvm.get_host_cpu_features().flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=LEVEL, codemodel="jitdefault", reloc="pic", jit=True
    )
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    while head := requests.read(4):
        text = requests.read(struct.unpack("<I", head)[0]).decode()
        try:
            module = llvm.parse_assembly(text)
            module.verify()
            if "alloca" in text:
                options = llvm.create_pipeline_tuning_options()
                manager = llvm.create_new_module_pass_manager()
                manager.add_sroa_pass()
                manager.run(module, llvm.create_pass_builder(machine, options))
            answer(answers, True, machine.emit_object(module))
        except RuntimeError as error:
            answer(answers, False, str(error).encode())


def answer(stream: BinaryIO, worked: bool, payload: bytes) -> None:
    """Send one answer."""
    stream.write(struct.pack("<?I", worked, len(payload)) + payload)
    stream.flush()


if __name__ == "__main__":
    main()
