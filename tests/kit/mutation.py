"""Damaged robot files: seeded, so that a failure can be had again from its number."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_NUMBERS = ["nan", "inf", "-inf", "1e308", "-1e308", "1e-320", "0", "-1", "abc", "", "1,5", "0x10", "1e400", "9" * 400]
_NAMES = ["", " ", "world", "a b", "a/b", "🤖", "__x__", "a::b", "..", "<x>".replace("<", "&lt;"), "x" * 3000, "&#0;"]
_ATTRIBUTE = re.compile(rb'([\w:.-]+)\s*=\s*"([^"]*)"')
_ELEMENT = re.compile(rb"<([\w:.-]+)[^<>]*>")
_NUMBER = re.compile(rb"(?<=[\s\">])-?\d+\.?\d*(?:e-?\d+)?(?=[\s\"<])")


def mutate(data: bytes, seed: int) -> bytes:
    """The document with one to four random damages."""
    rng = random.Random(seed)
    damages = _damages_for(data)
    for _ in range(rng.randint(1, 4)):
        data = rng.choice(damages)(data, rng)
    return data


def _damages_for(data: bytes) -> list[Callable[[bytes, random.Random], bytes]]:
    if data.startswith(b"#usda"):
        return _USDA_DAMAGES
    return _BINARY_DAMAGES if data.startswith((b"PXR-USDC", b"PK")) else _DAMAGES


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip_bytes(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if damaged:
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


def _cut_slice(data: bytes, rng: random.Random) -> bytes:
    a = rng.randrange(len(data) + 1)
    return data[:a] + data[a + rng.randint(1, 200) :]


def _repeat_slice(data: bytes, rng: random.Random) -> bytes:
    a = rng.randrange(len(data) + 1)
    return data[:a] + data[a : a + rng.randint(1, 300)] * rng.randint(2, 5) + data[a:]


def _spoil_number(data: bytes, rng: random.Random) -> bytes:
    return _replace_one(data, _NUMBER, rng, lambda _: rng.choice(_NUMBERS).encode())


def _spoil_attribute(data: bytes, rng: random.Random) -> bytes:
    value = rng.choice(_NAMES + _NUMBERS)
    return _replace_one(data, _ATTRIBUTE, rng, lambda m: m.group(1) + b'="' + value.encode() + b'"')


def _drop_attribute(data: bytes, rng: random.Random) -> bytes:
    return _replace_one(data, _ATTRIBUTE, rng, lambda _: b"")


def _swap_attributes(data: bytes, rng: random.Random) -> bytes:
    """Give an attribute the value of another: names that clash, point elsewhere, or make circles."""
    found = list(_ATTRIBUTE.finditer(data))
    if not found:
        return data
    other = rng.choice(found).group(2)
    return _replace_one(data, _ATTRIBUTE, rng, lambda m: m.group(1) + b'="' + other + b'"')


def _rename_element(data: bytes, rng: random.Random) -> bytes:
    found = list(_ELEMENT.finditer(data))
    if not found:
        return data
    old, new = rng.choice(found).group(1), rng.choice(found).group(1)
    return re.sub(rb"(</?)" + re.escape(old) + rb"(?=[\s/>])", rb"\1" + new, data)


def _drop_element(data: bytes, rng: random.Random) -> bytes:
    """Remove an element with everything in it, or just its opening tag."""
    found = list(_ELEMENT.finditer(data))
    if not found:
        return data
    m = rng.choice(found)
    closing = data.find(b"</" + m.group(1) + b">", m.end())
    end = m.end() if closing < 0 or rng.random() < 0.2 else closing + len(m.group(1)) + 3
    return data[: m.start()] + data[end:]


def _nest(data: bytes, rng: random.Random) -> bytes:
    found = list(_ELEMENT.finditer(data))
    if not found:
        return data
    m = rng.choice(found)
    tag, depth = m.group(1), rng.choice([3, 50, 2000])
    return data[: m.start()] + b"<" + tag + b">" + (b"<" + tag + b">") * depth + data[m.start() :]


def _replace_one(
    data: bytes, pattern: re.Pattern[bytes], rng: random.Random, new: Callable[[re.Match[bytes]], bytes]
) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    m = rng.choice(found)
    return data[: m.start()] + new(m) + data[m.end() :]


_DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [
    _truncate,
    _flip_bytes,
    _cut_slice,
    _repeat_slice,
    _spoil_number,
    _spoil_number,
    _spoil_attribute,
    _spoil_attribute,
    _drop_attribute,
    _swap_attributes,
    _swap_attributes,
    _rename_element,
    _drop_element,
    _drop_element,
    _nest,
]

# -- USD --------------------------------------------------------------------------------------------------------------

_USDA_NUMBER = re.compile(rb"(?<=[\s(\[,])-?\d+\.?\d*(?:e-?\d+)?(?=[\s,)\]])")
_USDA_PATH = re.compile(rb"<[^<>\n]*>")
_USDA_STRING = re.compile(rb'"([^"\n]*)"')
_USDA_WORD = re.compile(rb"\b[A-Za-z_:]{3,}\b")
_USDA_BLOCK = re.compile(rb"\n[ \t]*(?:def|over|class)[^\n]*")
_PATHS = [b"<>", b"</>", b"</nowhere>", b"<..>", b"<../..>", b"</World.x>", b"<" + b"/a" * 2000 + b">", b"</a{v=b}c>"]


def _usda_number(data: bytes, rng: random.Random) -> bytes:
    return _replace_one(data, _USDA_NUMBER, rng, lambda _: rng.choice(_NUMBERS).encode())


def _usda_path(data: bytes, rng: random.Random) -> bytes:
    return _replace_one(data, _USDA_PATH, rng, lambda _: rng.choice(_PATHS))


def _usda_string(data: bytes, rng: random.Random) -> bytes:
    value = rng.choice(_NAMES).encode()
    return _replace_one(data, _USDA_STRING, rng, lambda _: b'"' + value + b'"')


def _swapped(pattern: re.Pattern[bytes]) -> Callable[[bytes, random.Random], bytes]:
    """Put what one match of a pattern is where another was: names, targets, schemas, types, keywords."""

    def swap(data: bytes, rng: random.Random) -> bytes:
        found = pattern.findall(data) if pattern.groups == 0 else [m.group() for m in pattern.finditer(data)]
        return _replace_one(data, pattern, rng, lambda _: rng.choice(found)) if found else data

    return swap


def _drop_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    del lines[rng.randrange(len(lines))]
    return b"\n".join(lines)


def _move_line(data: bytes, rng: random.Random) -> bytes:
    """An attribute, or a brace, in another prim."""
    lines = data.split(b"\n")
    line = lines.pop(rng.randrange(len(lines)))
    lines.insert(rng.randrange(len(lines) + 1), line)
    return b"\n".join(lines)


def _nest_prims(data: bytes, rng: random.Random) -> bytes:
    found = list(_USDA_BLOCK.finditer(data))
    if not found:
        return data
    at = rng.choice(found).start()
    depth = rng.choice([3, 50, 3000])
    return data[:at] + b'\ndef Xform "p"\n{' * depth + b"\n}" * depth + data[at:]


_USDA_DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [
    _truncate,
    _flip_bytes,
    _cut_slice,
    _repeat_slice,
    *[_usda_number] * 4,
    *[_usda_path] * 2,
    *[_swapped(_USDA_PATH)] * 3,
    _usda_string,
    *[_swapped(_USDA_STRING)] * 2,
    *[_swapped(_USDA_WORD)] * 3,
    *[_drop_line] * 3,
    *[_move_line] * 3,
    _nest_prims,
]

_BINARY_DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [
    _truncate,
    *[_flip_bytes] * 6,
    _cut_slice,
    _repeat_slice,
]
