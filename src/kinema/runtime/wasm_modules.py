"""WebAssembly modules of compiled libraries, made from relocatable object files of LLVM without a linker.

The code of an object file that contains everything it calls is that of a module: its indices and addresses are final
when its data are placed at address 0, because LLVM writes provisional addresses relative to the first data segment. A
memory of the module's own, its stack pointer and exports are added.

Memory: constants from address 0, then the stack, then free memory from `__heap_base` on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema.core import InternalError

PAGE_BYTES = 65536
"""Size of a page of memory."""
_MAGIC = b"\0asm\1\0\0\0"
_CUSTOM, _TYPE, _IMPORT, _FUNCTION, _MEMORY, _GLOBAL, _EXPORT, _CODE, _DATA, _DATA_COUNT = (
    0,
    1,
    2,
    3,
    5,
    6,
    7,
    10,
    11,
    12,
)
_SYMBOL_TABLE = 8
"""Subsection of the section `linking`."""
_FUNCTION_SYMBOL, _DATA_SYMBOL = 0, 1
_LOCAL, _UNDEFINED, _EXPLICIT_NAME = 2, 0x10, 0x40
"""Flags of symbols."""
_FUNCTION_IMPORT, _MEMORY_IMPORT, _GLOBAL_IMPORT = 0, 2, 3
_I32, _END, _I32_CONST = 0x7F, 0x0B, 0x41
_ALIGNMENT = 16


@dataclass(slots=True, eq=False)
class WasmSummary:
    """Symbols, sections and sizes of a relocatable object file."""

    functions: dict[str, int] = field(default_factory=dict)
    """Global function -> index."""
    data: dict[str, int] = field(default_factory=dict)
    """Global constant -> address."""
    undefined: list[str] = field(default_factory=list)
    """Functions and data that the file needs from others."""
    sections: list[tuple[int, bytes]] = field(default_factory=list)
    """Identifier and content of all sections but custom ones and imports, in the order of the file."""
    data_bytes: int = 0
    """End of the constants [bytes]."""

    @property
    def allocated_bytes(self) -> int:
        """Size of code and constants [bytes]."""
        return sum(len(content) for kind, content in self.sections if kind in (_CODE, _DATA))


def summarise_wasm(code: bytes) -> WasmSummary:
    """Read the sections and the symbol table of a relocatable WebAssembly object file."""
    found, symbols, segments = WasmSummary(), b"", list[int]()
    for kind, content in _sections(code):
        if kind == _CUSTOM:
            reader = _Reader(content)
            if reader.name() == "linking":
                symbols = content[reader.position :]
            continue
        if kind == _IMPORT:
            found.undefined += _imported_functions(content)
            continue
        if kind == _DATA:
            segments = _segment_addresses(content, found)
        found.sections.append((kind, content))
    _read_symbols(symbols, segments, found)
    return found


def wasm_module(summary: WasmSummary, stack_bytes: int, heap_bytes: int) -> bytes:
    """Module that exports the functions and constants of an object file, its memory, and `__heap_base`.

    Args:
        summary: the object file.
        stack_bytes: size of the stack.
        heap_bytes: free memory from `__heap_base` on; the memory can grow.
    """
    stack_top = _aligned(summary.data_bytes) + _aligned(stack_bytes)
    n_pages = -(-(stack_top + heap_bytes) // PAGE_BYTES)
    constants = [stack_top, stack_top, *summary.data.values()]  # stack pointer, heap base, addresses
    memory = _unsigned(1) + b"\0" + _unsigned(n_pages)
    global_items = [
        bytes([_I32, i == 0, _I32_CONST]) + _signed(value) + bytes([_END]) for i, value in enumerate(constants)
    ]
    exports = [(name, 0, index) for name, index in summary.functions.items()]
    exports += [("memory", 2, 0), ("__heap_base", 3, 1)]
    exports += [(name, 3, 2 + i) for i, name in enumerate(summary.data)]
    export_items = [_name(name) + bytes([kind]) + _unsigned(index) for name, kind, index in exports]
    added = {_MEMORY: memory, _GLOBAL: _vector(global_items), _EXPORT: _vector(export_items)}
    sections = [*summary.sections, *added.items()]
    # The sections stand in the order of their identifiers, except the number of data segments, which precedes the code.
    sections.sort(key=lambda section: 9.5 if section[0] == _DATA_COUNT else section[0])
    return _MAGIC + b"".join(bytes([kind]) + _unsigned(len(content)) + content for kind, content in sections)


# -------------------------------------------------------------------------------------------------------------- reading


class _Reader:
    """Position in a section."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.position = 0

    def unsigned(self) -> int:
        """Next number in LEB128."""
        value = shift = 0
        while True:
            byte = self.content[self.position]
            self.position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        """Next signed 32-bit number in LEB128."""
        start = self.position
        value, n_bits = self.unsigned(), 7 * (self.position - start)
        return value - (1 << n_bits) if value >> (n_bits - 1) & 1 else value

    def take(self, count: int) -> bytes:
        """Next bytes."""
        self.position += count
        return self.content[self.position - count : self.position]

    def name(self) -> str:
        """Next name."""
        return self.take(self.unsigned()).decode()


def _sections(code: bytes) -> Iterator[tuple[int, bytes]]:
    """Identifier and content of each section."""
    if not code.startswith(_MAGIC):
        raise InternalError("no WebAssembly object file")
    reader = _Reader(code)
    reader.position = len(_MAGIC)
    while reader.position < len(code):
        kind = reader.take(1)[0]
        yield kind, reader.take(reader.unsigned())


def _imported_functions(content: bytes) -> list[str]:
    """Names of imported functions; InternalError for imports besides functions, the memory and the stack pointer.

    Memory and stack pointer become the first memory and the first global of the module.
    """
    reader, functions = _Reader(content), list[str]()
    for _ in range(reader.unsigned()):
        reader.name()
        name, kind = reader.name(), reader.take(1)[0]
        if kind == _FUNCTION_IMPORT:
            reader.unsigned()  # type
            functions.append(name)
        elif (name, kind) == ("__linear_memory", _MEMORY_IMPORT):
            reader.take(1)  # without maximum
            reader.unsigned()
        elif (name, kind) == ("__stack_pointer", _GLOBAL_IMPORT):
            reader.take(2)
        else:
            raise InternalError(f"WebAssembly object file that imports {name}")
    return functions


def _segment_addresses(content: bytes, found: WasmSummary) -> list[int]:
    """Address of each data segment; sets the end of the constants."""
    reader, addresses = _Reader(content), list[int]()
    for _ in range(reader.unsigned()):
        mode = reader.unsigned()
        opcode = reader.take(1)[0]
        if mode != 0 or opcode != _I32_CONST:
            raise InternalError("WebAssembly data segment without a constant address")
        addresses.append(reader.signed())
        reader.take(1)
        size = reader.unsigned()
        reader.take(size)
        found.data_bytes = max(found.data_bytes, addresses[-1] + size)
    return addresses


def _read_symbols(table: bytes, segments: list[int], found: WasmSummary) -> None:
    """Fill in the symbols from the content of the section `linking` after its name."""
    reader = _Reader(table)
    reader.unsigned()  # version
    while reader.position < len(table):
        kind, size = reader.take(1)[0], reader.unsigned()
        end = reader.position + size
        if kind == _SYMBOL_TABLE:
            for _ in range(reader.unsigned()):
                _read_symbol(reader, segments, found)
        reader.position = end


def _read_symbol(reader: _Reader, segments: list[int], found: WasmSummary) -> None:
    kind, flags = reader.take(1)[0], reader.unsigned()
    is_undefined, is_global = bool(flags & _UNDEFINED), not flags & _LOCAL
    if kind == _DATA_SYMBOL:
        name = reader.name()
        if is_undefined:
            found.undefined.append(name)
            return
        segment, offset, _ = reader.unsigned(), reader.unsigned(), reader.unsigned()
        if is_global:
            found.data[name] = segments[segment] + offset
        return
    index = reader.unsigned()
    if is_undefined and not flags & _EXPLICIT_NAME:
        return  # the name is that of the import
    name = reader.name()
    if kind == _FUNCTION_SYMBOL and is_global and not is_undefined:
        found.functions[name] = index


# -------------------------------------------------------------------------------------------------------------- writing


def _unsigned(value: int) -> bytes:
    """Number in LEB128."""
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])


def _signed(value: int) -> bytes:
    """Non-negative number in signed LEB128."""
    result = bytearray()
    while value > 63:
        result.append(value & 127 | 128)
        value >>= 7
    return bytes([*result, value])


def _vector(items: list[bytes]) -> bytes:
    return _unsigned(len(items)) + b"".join(items)


def _name(text: str) -> bytes:
    return _unsigned(len(text.encode())) + text.encode()


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
