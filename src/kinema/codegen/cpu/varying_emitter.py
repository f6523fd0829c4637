"""Emission of the varying part of a program: varying values in SIMD lanes, uniform values and control flow as scalars.

Uniform values are loaded from the memory of the uniform part (arena `PRECOMPUTED`, parameter `%out`), from the uniform
arena, tables, or local arrays in `Program.uniform_locals`. They are broadcast where a varying operation uses them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from kinema.ir import PRECOMPUTED, UNIFORM, ArenaOffset, BasicBlock, MemoryLocation, Operand, Program, Store

from ..memory import ValueNames
from ..statements import OUTLINED_POINTERS, StatementEmitter, sincos_pairs
from ..target import Target


class VaryingEmitter(StatementEmitter):
    """Emits statements with uniform control flow: scalar code, except for varying values, which are vectors."""

    local_alignment = 64  # a cache line: a vector that lies in two takes twice as long

    def __init__(self, array_offsets: Mapping[str, ArenaOffset], target: Target) -> None:
        super().__init__({**array_offsets, PRECOMPUTED: ArenaOffset(PRECOMPUTED, 0)}, target)
        self.outlined_pointers = (*OUTLINED_POINTERS, "out")
        self._vector_target, self._scalar_target = target, replace(target, lanes=1)
        self._varying: set[int] = set()
        """Values of the current basic block that differ between lanes."""
        self._broadcasts: dict[str, str] = {}
        """Scalar of the current basic block -> vector of it."""
        self.set_lanes(self._scalar_target)

    def new_emitter(self) -> VaryingEmitter:
        """Emitter of the same kind for an outlined function."""
        return VaryingEmitter(self.array_offsets, self._vector_target)

    def declarations(self) -> list[str]:
        """LLVM declarations of arithmetic intrinsics on scalars and vectors."""
        with self._vectors():
            return super().declarations()

    def allocate_locals(self, program: Program, names: Collection[str] | None = None) -> dict[str, str]:
        """Emit stack allocations of local arrays: of a scalar per element for uniform ones, else of a vector."""
        assert program.uniform_locals is not None
        self.scalar_storage = program.uniform_locals
        return {
            name: self._allocate(name, count, self.scalar_type if name in self.scalar_storage else self.vector_type)
            for name, count in program.locals.items()
            if names is None or name in names
        }

    @contextmanager
    def _vectors(self) -> Iterator[None]:
        """Context manager: values are vectors."""
        self.set_lanes(self._vector_target)
        yield
        self.set_lanes(self._scalar_target)

    # ----------------------------------------------------------------------------------------------- loads and stores

    def _is_uniform(self, location: MemoryLocation) -> bool:
        arena = self.address_resolver.resolve(location).arena
        return arena in ("", UNIFORM, PRECOMPUTED) or arena in self.scalar_storage

    def load(self, location: MemoryLocation, value_names: ValueNames) -> str:
        """Emit the load of a scalar from uniform memory, of a vector from other memory."""
        index = None if location.index is None else self._uniform_index(location.index, value_names[location.index])
        value_type = self.scalar_type if self._is_uniform(location) else self.vector_type
        return self.assign(f"load {value_type}, {self._pointer(location, index)}, align {self.scalar_bytes}")

    def store(self, location: MemoryLocation, value: str, value_names: ValueNames) -> None:
        """Emit the store of a scalar to uniform memory, of a vector to other memory."""
        index = None if location.index is None else self._uniform_index(location.index, value_names[location.index])
        value_type = self.scalar_type if self._is_uniform(location) else self.vector_type
        self.emit(f"store {value_type} {value}, {self._pointer(location, index)}, align {self.scalar_bytes}")

    # --------------------------------------------------------------------------------------------------- basic blocks

    def emit_instructions(
        self, block: BasicBlock, eager_stores: Mapping[int, Sequence[Store]] | None = None
    ) -> ValueNames:
        """Emit the instructions of a basic block; returns the LLVM name of each value, a scalar or a vector."""
        self.definitions = {i.result: i for i in block.instructions}
        self._varying, self._broadcasts = set(), {}
        names: dict[int, str] = {}
        pairs, varying = sincos_pairs(block), self._varying
        for result, op, arguments, location in block.instructions:
            if result in names:
                continue
            defined = (result,)
            if location is not None:
                names[result] = self.load(location, names)
                if not self._is_uniform(location):
                    varying.add(result)
            elif not any(type(a) is int and a in varying for a in arguments):
                defined = self._emit_scalar(result, op, arguments, pairs, names)
            else:
                defined = pairs.get(arguments[0], defined) if op in ("sin", "cos") else defined
                varying.update(defined)
                self._emit_vector(op, arguments, defined, names)
            if eager_stores:
                self.emit_stores([store for value in defined for store in eager_stores.get(value, ())], names)
            self.split_long_block()
        return names

    def _emit_scalar(
        self,
        result: int,
        op: str,
        arguments: Sequence[Operand],
        pairs: Mapping[Operand, tuple[int, int]],
        names: dict[int, str],
    ) -> tuple[int, ...]:
        """Emit a uniform operation; returns the values that it defines: sine and cosine of an angle together."""
        operands = [names[a] if type(a) is int else self.constant(a) for a in arguments]
        if op not in ("sin", "cos"):
            names[result] = self.emit_op(op, operands)
            return (result,)
        defined = pairs.get(arguments[0])
        sine, cosine = self.sincos(operands[0])
        if defined is None:
            names[result] = cosine if op == "cos" else sine
            return (result,)
        names.update(zip(defined, (sine, cosine), strict=True))
        return defined

    def _emit_vector(
        self, op: str, arguments: Sequence[Operand], defined: tuple[int, ...], names: dict[int, str]
    ) -> None:
        """Emit a varying operation."""
        with self._vectors():
            operands = [self._vector(a, names) for a in arguments]
            if op in ("sin", "cos"):
                pair = self.sincos(operands[0])
                names.update(zip(defined, pair if len(defined) == 2 else (pair[op == "cos"],), strict=True))
            else:
                names[defined[0]] = self.emit_op(op, operands)

    def _vector(self, operand: Operand, names: ValueNames) -> str:
        """Operand of a varying operation, broadcast if it is uniform."""
        if type(operand) is not int:
            return self.constant(operand)
        name = names[operand]
        if operand in self._varying:
            return name
        if name not in self._broadcasts:
            self._broadcasts[name] = self.splat(name)
        return self._broadcasts[name]

    def emit_stores(self, stores: Sequence[Store], value_names: ValueNames) -> None:
        """Emit stores of a basic block."""
        for store in stores:
            self.split_long_block()
            if self._is_uniform(store.location):
                value = self._operand(store.value, value_names)
            else:
                with self._vectors():
                    value = self._vector(store.value, value_names)
            self.store(store.location, value, value_names)
