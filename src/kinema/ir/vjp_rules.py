"""Vector-Jacobian products of single operations, and the choice of the values of a block that its adjoint records.

The adjoint of a basic block needs some of its values: factors of products, angles, compared operands. Each of them is
either recorded when the block runs, or recomputed from loads, whichever costs less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .activity import derivative_operands
from .operations import OPERATIONS
from .program import BasicBlock, Instruction
from .symbolic import Value, absolute, cos, divide, multiply, negate, select, sin


class VJPRule(NamedTuple):
    """Adjoint contribution of the result of an operation to one of its operands."""

    contribution: Callable[..., Value]
    """Function of the adjoint of the result, the result and the operands; operands that are not needed are None."""
    operands: tuple[int, ...] = ()
    """Positions of the operands that the contribution depends on."""
    needs_result: bool = False


def _finite(x: Value) -> Value:
    """The value x, or 0 if it is not finite."""
    return select(absolute(x), math.inf, x, 0.0)


def _zero(d: Value, *_: object) -> Value:
    return 0.0


def _same(d: Value, *_: object) -> Value:
    return d


def _negated(d: Value, *_: object) -> Value:
    return negate(d)


def _reciprocal(d: Value, y: Value, _: object) -> Value:
    """Contribution -d / a² of y = 1 / a; 0 where it overflows, so that the adjoint 0 of an unused quotient stays 0."""
    square = multiply(y, y)
    return negate(multiply(d, select(square, math.inf, square, 0.0)))


def _sqrt(d: Value, y: Value, _: object) -> Value:
    """Contribution d / (2 y) of y = sqrt(a); 0 at 0, and where a is negative."""
    return select(0.0, y, multiply(d, divide(0.5, select(0.0, y, y, 1.0))), 0.0)


_TIMES_FIRST = VJPRule(lambda d, _, a, *__: multiply(d, a), (0,))
_TIMES_SECOND = VJPRule(lambda d, _, a, b, *__: multiply(d, b), (1,))

VJP_RULES: Mapping[str, tuple[VJPRule, ...]] = {
    "add": (VJPRule(_same), VJPRule(_same)),
    "sub": (VJPRule(_same), VJPRule(_negated)),
    "mul": (_TIMES_SECOND, _TIMES_FIRST),
    "neg": (VJPRule(_negated),),
    "reciprocal": (VJPRule(_reciprocal, needs_result=True),),
    "sqrt": (VJPRule(_sqrt, needs_result=True),),
    "sin": (VJPRule(lambda d, _, a: multiply(d, cos(a)), (0,)),),
    "cos": (VJPRule(lambda d, _, a: negate(multiply(d, sin(a))), (0,)),),
    "abs": (VJPRule(lambda d, _, a: select(a, 0.0, negate(d), d), (0,)),),
    "floor": (VJPRule(_zero),),
    "any": (VJPRule(_zero),),
    "min": (
        VJPRule(lambda d, _, a, b: select(b, a, 0.0, d), (0, 1)),
        VJPRule(lambda d, _, a, b: select(b, a, d, 0.0), (0, 1)),
    ),
    "max": (
        VJPRule(lambda d, _, a, b: select(a, b, 0.0, d), (0, 1)),
        VJPRule(lambda d, _, a, b: select(a, b, d, 0.0), (0, 1)),
    ),
    "select": (
        VJPRule(_zero),
        VJPRule(_zero),
        VJPRule(lambda d, _, a, b, *__: select(a, b, d, 0.0), (0, 1)),
        VJPRule(lambda d, _, a, b, *__: select(a, b, 0.0, d), (0, 1)),
    ),
    "fma": (_TIMES_SECOND, _TIMES_FIRST, VJPRule(_same)),
    "fms": (_TIMES_SECOND, _TIMES_FIRST, VJPRule(_negated)),
    "fnma": (
        VJPRule(lambda d, _, a, b, c: negate(multiply(d, b)), (1,)),
        VJPRule(lambda d, _, a, b, c: negate(multiply(d, a)), (0,)),
        VJPRule(_same),
    ),
    "detach": (VJPRule(_zero),),
    "attach": (VJPRule(_zero), VJPRule(_same)),
}
"""Operation -> rule for each operand. Where the executed branch of a selection changes, the derivative is that of the
branch that is executed, as in forward mode."""


def factor(value: Value, *, may_overflow: bool) -> Value:
    """Value of an operand as a factor of an adjoint; 0 if it is not finite, where that is possible."""
    return _finite(value) if may_overflow else value


def values_that_may_overflow(block: BasicBlock) -> set[int]:
    """Values of a block that may be infinite or undefined where a selection of the block discards them.

    These are the results of reciprocals and square roots, and of products with them, that a selection, minimum or
    maximum of the block depends on. The adjoint of a discarded value is 0, and has to stay 0 in products with it.
    """
    discarded: set[int] = set()
    for result, op, args, _ in reversed(block.instructions):
        if op in ("select", "min", "max") or result in discarded:
            discarded.update(a for a in derivative_operands(op, args) if type(a) is int)
    overflows: set[int] = set()
    for result, op, args, _ in block.instructions:
        if op in ("reciprocal", "sqrt") or any(type(a) is int and a in overflows for a in args):
            overflows.add(result)
    return overflows & discarded


# ------------------------------------------------------------------------------------------- recorded or recomputed

RECORDING_COST = 4
"""Cost of recording a value and of loading it, in floating-point operations."""


@dataclass(slots=True, eq=False)
class RecordedValues:
    """Values of a block that its adjoint uses."""

    recorded: list[int] = field(default_factory=list)
    """Values stored on the tape."""
    available: set[int] = field(default_factory=set)
    """Values that the adjoint loads from the tape, loads from memory again or recomputes."""


def needed_values(block: BasicBlock, active: Collection[int]) -> set[int]:
    """Values that the vector-Jacobian products of the active operations of a block depend on."""
    needed: set[int] = set()
    partners = trigonometric_partners(block)
    for result, op, args, location in block.instructions:
        if location is not None or result not in active or op == "loop_index":
            continue
        if result in partners:
            needed.add(partners[result])
            continue
        for a, rule in zip(args, VJP_RULES[op], strict=True):
            if type(a) is int and a in active and rule.contribution is not _zero:
                needed.update(b for b in (args[i] for i in rule.operands) if type(b) is int)
                if rule.needs_result:
                    needed.add(result)
    return needed


def trigonometric_partners(block: BasicBlock) -> dict[int, int]:
    """Sine -> cosine of the same angle in a block, and cosine -> sine: the derivative of one is the other."""
    results = {(i.op, i.args): i.result for i in block.instructions if i.op in ("sin", "cos")}
    other = {"sin": "cos", "cos": "sin"}
    return {result: results[other[op], args] for (op, args), result in results.items() if (other[op], args) in results}


def value_operands(instruction: Instruction) -> list[int]:
    """Values that the value of an instruction depends on, except values that only its derivative depends on."""
    return [a for a in instruction.args[:1] if type(a) is int] if instruction.op == "attach" else instruction.uses


def choose_recorded_values(
    block: BasicBlock, needed: Collection[int], is_reloadable: Callable[[Instruction], bool]
) -> RecordedValues:
    """Choose which values of a block are recorded on the tape, and which ones the adjoint recomputes.

    In program order, a needed value is recomputed from values that are available already and from loads, if this costs
    at most as much as recording it.

    Args:
        block: the basic block.
        needed: values that the adjoint uses.
        is_reloadable: whether the memory that an instruction loads still has the same value when the adjoint runs.
    """
    result, definitions = RecordedValues(), {i.result: i for i in block.instructions}
    for instruction in block.instructions:
        value = instruction.result
        if value not in needed or value in result.available:
            continue
        closure, recorded, cost = _recomputation(value, definitions, result.available, is_reloadable)
        if cost > RECORDING_COST:
            closure, recorded = {value}, [value]
        result.available |= closure
        result.recorded += recorded
    return result


def _recomputation(
    value: int,
    definitions: Mapping[int, Instruction],
    available: Collection[int],
    is_reloadable: Callable[[Instruction], bool],
) -> tuple[set[int], list[int], int]:
    """Values that have to be available to compute a value, the recorded ones among them, and the cost.

    Stops if the cost exceeds that of recording the value itself.
    """
    closure, recorded, cost, pending = {value}, list[int](), 0, [value]
    while pending and cost <= RECORDING_COST:
        instruction = definitions[pending.pop()]
        if instruction.op == "any" or (instruction.location is not None and not is_reloadable(instruction)):
            recorded.append(instruction.result)  # the lanes of a vector may have changed, or memory
            cost += RECORDING_COST
            continue
        operation = OPERATIONS.get(instruction.op)
        cost += 1 if operation is None else operation.n_flops
        for operand in value_operands(instruction):
            if operand not in available and operand not in closure:
                closure.add(operand)
                pending.append(operand)
    return closure, recorded, cost
