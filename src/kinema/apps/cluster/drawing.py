"""Random numbers of episodes: each has its own, whoever draws them, and beside whichever others."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from kinema.scene import Draw

_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_KEY_STEPS = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True)
class OfEpisodes(Draw):
    """A distribution that gives each episode its own numbers, whichever environment it is played in."""

    episodes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def numbers(self, envs: np.ndarray, items: tuple[int, ...], seed: int, purpose: str) -> np.ndarray:
        """Numbers for some environments, (environments, *items)."""
        own = items if self.each == "item" else (1,) * len(items)
        key, episodes = zlib.crc32(purpose.encode()), self.episodes[envs]
        if self.each == "all":
            rows = np.array([self._draw(np.random.default_rng([seed, key]), own)] * len(envs))
        elif self.kind == "normal":
            rows = np.array([self._draw(g, own) for g in generators_in_turn(seed, episodes, key)])
        else:
            rows = self._spread(uniforms(seed, episodes, key, math.prod(own))).reshape(-1, *own)
        return np.broadcast_to(rows, (len(envs), *items))

    def _spread(self, units: np.ndarray) -> np.ndarray:
        """Numbers between 0 and 1, each to its place in the distribution: as NumPy does it, to the bit."""
        if self.kind == "uniform":
            return self.a + (self.b - self.a) * units
        low, high = math.log(self.a), math.log(self.b)
        return np.exp(low + (high - low) * units)


def episode_generators(seed: int, episodes: np.ndarray, purpose: int) -> list[np.random.Generator]:
    """Random numbers of each episode, for one purpose: they depend on nothing else."""
    return [np.random.default_rng([seed, purpose, int(episode)]) for episode in episodes]


def generators_in_turn(seed: int, episodes: np.ndarray, purpose: int) -> Iterator[np.random.Generator]:
    """Likewise, to draw from before the next is asked for.

    It is one generator, moved each time: making one takes longer than drawing from it.
    """
    bits = np.random.Philox(np.random.SeedSequence([seed, purpose]))
    generator, state = np.random.Generator(bits), bits.state
    for episode in episodes:
        state["state"]["counter"][:] = 0, int(episode), 0, 0  # 2^64 times four numbers from one to the next
        bits.state = state
        yield generator


def uniforms(seed: int, episodes: np.ndarray, purpose: int, count: int) -> np.ndarray:
    """What `generators_in_turn` would give by `random(count)`, of all episodes at once: (episodes, count).

    Philox turns a counter into four numbers, without anything that came before; so all counters can be taken together.
    Moving a generator from episode to episode takes a tenth of the time of a short episode.
    """
    bits = np.random.Philox(np.random.SeedSequence([seed, purpose]))
    blocks = np.arange(1, -(-count // 4) + 1, dtype=np.uint64)
    shape = (len(episodes), len(blocks))
    first = np.broadcast_to(blocks, shape)
    second = np.broadcast_to(np.asarray(episodes, np.uint64)[:, None], shape)
    zero = np.zeros(shape, np.uint64)
    words = np.stack(_philox((first, second, zero, zero), bits.state["state"]["key"]), axis=-1)
    return ((words >> np.uint64(11)) * 2.0**-53).reshape(len(episodes), -1)[:, :count]


def _philox(counter: tuple[np.ndarray, ...], key: np.ndarray) -> tuple[np.ndarray, ...]:
    """Ten rounds of Philox4x64 (Salmon et al. 2011)."""
    c0, c1, c2, c3 = counter
    k0, k1 = (int(k) for k in key)
    for _ in range(_ROUNDS):
        high0, low0 = _product(_MULTIPLIERS[0], c0)
        high1, low1 = _product(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ np.uint64(k0), low1, high0 ^ c3 ^ np.uint64(k1), low0
        k0, k1 = ((k + step) & 0xFFFFFFFFFFFFFFFF for k, step in zip((k0, k1), _KEY_STEPS, strict=True))
    return c0, c1, c2, c3


def _product(factor: int, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The upper and the lower 64 bits of products of 128."""
    a1, a0 = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    b1, b0 = numbers >> _HALF, numbers & _LOW
    cross = a1 * b0 + (a0 * b0 >> _HALF)
    middle = a0 * b1 + (cross & _LOW)
    return a1 * b1 + (cross >> _HALF) + (middle >> _HALF), np.uint64(factor) * numbers
