"""The passes over programs, in the order in which they run.

While an algorithm is traced, constants are folded and common subexpressions eliminated (`symbolic.py`), dead code is
eliminated (`tracer.py`), and for-each loops of small models are unrolled (`unroll.py`). The lists below follow:

- CPU: `CPU_PASSES` on the program; then functions are emitted one by one, with `BLOCK_PASSES` on each basic block just
  before it is emitted, so that the first modules are compiled while later ones are still optimised.
- GPU: `gpu_passes` from the program to its kernels. Then each kernel, the longest first, gets the passes of its type:
  thread kernels `partition` (straight-line code with several threads per environment) or `BLOCK_PASSES`; warp kernels
  `BLOCK_PASSES` and `fit-shared-memory` (`plan_occupancy` of the runtime); work-queue kernels `BLOCK_PASSES`.

`run_passes` can verify the result of each pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from .block_split import split_long_kernels
from .independent_iterations import parallelise_loops
from .kernel_split import KernelPart, fission_kernels, promote_shared_locals
from .memory import WARP_GLOBAL
from .optimise import fuse_multiply_add, schedule_instructions
from .outline import outline_functions
from .program import BasicBlock, Instruction, Program, Store, map_basic_blocks
from .verifier import verify


class Pass(NamedTuple):
    """Named transformation of a program; from `kernel-fission` on, of a list of kernels."""

    name: str
    transform: Callable[[Any], Any]


BLOCK_PASSES: Sequence[Pass] = (
    Pass("fp-contract", fuse_multiply_add),
    Pass("schedule", schedule_instructions),
)
"""Passes on single basic blocks: multiply-add fusion, instruction scheduling for low register pressure."""

CPU_PASSES: Sequence[Pass] = (Pass("outline", outline_functions),)
"""Passes on a whole program for a CPU: long loops and blocks become functions, which are compiled in parallel."""


def gpu_passes(
    group_size: int, max_instructions: int | None = None, block_instructions: int | None = None
) -> Sequence[Pass]:
    """Ordered list of the passes that turn a program into the kernels of a GPU.

    Parallelisation of loops with independent iterations, promotion of shared local arrays, kernel fission and, if
    requested, splitting of long basic blocks. Kernel fission includes level scheduling of the for-each loops of warp
    regions (code shared by a warp) and the layout of scratch memory, as both depend on the data that the kernels
    exchange.

    Args:
        group_size: threads per environment of a warp region.
        max_instructions: number of instructions above which thread kernels are split; None if they are not.
        block_instructions: maximum number of instructions of the parts of long blocks; None to leave blocks whole.
    """
    passes = [
        Pass("parallelise-loops", parallelise_loops),
        Pass("promote-locals", partial(promote_shared_locals, max_instructions=max_instructions)),
        Pass("kernel-fission", partial(fission_kernels, group_size=group_size, max_instructions=max_instructions)),
    ]
    if max_instructions is not None and block_instructions is not None:
        split = partial(
            split_long_kernels,
            max_instructions=max_instructions,
            block_instructions=block_instructions,
            block_pass=optimise_basic_block,
        )
        passes.append(Pass("split-blocks", split))
    return passes


def run_passes(program: Program, passes: Sequence[Pass], *, verify_each: bool = False) -> Any:
    """Run passes in order; with `verify_each`, the program or the kernels after each pass are verified."""
    result: Any = program
    for _, transform in passes:
        result = transform(result)
        if verify_each:
            for part in [KernelPart(result)] if isinstance(result, Program) else result:
                verify(part.program, {WARP_GLOBAL: part.n_global})
    return result


def split_into_kernels(program: Program, group_size: int, max_instructions: int | None = None) -> list[KernelPart]:
    """Run the GPU passes on a program with long basic blocks left whole; returns its kernels in launch order."""
    return list(run_passes(program, gpu_passes(group_size, max_instructions)))


_MAX_MEMOISED = 2_000
"""Basic blocks, and instructions of one, whose optimised form is kept."""
_optimised_blocks: dict[tuple[Any, ...], tuple[tuple[Instruction, ...], tuple[Store, ...]]] = {}


def optimise_basic_block(block: BasicBlock) -> BasicBlock:
    """Run all passes on basic blocks on one block, in order.

    Results are memoised by content: programs of scenes with parts in common have many blocks in common.
    """
    if len(block.instructions) > _MAX_MEMOISED:
        return _run_block_passes(block)
    key = _block_key(block)
    known = _optimised_blocks.get(key)
    if known is None:
        optimised = _run_block_passes(block)
        if len(_optimised_blocks) >= _MAX_MEMOISED:
            _optimised_blocks.clear()
        known = _optimised_blocks[key] = optimised.instructions, optimised.stores
    return BasicBlock(*known)


def _run_block_passes(block: BasicBlock) -> BasicBlock:
    for _, transform in BLOCK_PASSES:
        block = transform(block)
    return block


def _block_key(block: BasicBlock) -> tuple[Any, ...]:
    """Content of a basic block as a dictionary key: constants as text, as 2 == 2.0 and 0.0 == -0.0."""
    definitions = tuple([(i.result, i.op, len(i.args), i.location) for i in block.instructions])
    operands = tuple([a if type(a) is int else repr(a) for i in block.instructions for a in i.args])
    stores = tuple([(location, value if type(value) is int else repr(value)) for location, value in block.stores])
    return definitions, operands, stores


def optimise(program: Program) -> Program:
    """Run all passes on basic blocks on every basic block of a program."""
    return replace(program, body=map_basic_blocks(program.body, optimise_basic_block))
