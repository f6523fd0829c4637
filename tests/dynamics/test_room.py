"""More contacts than a team of threads has room for: the deepest are kept, whoever found them first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kinema.dynamics.collision.contact_buffer_specs import ContactSpecialization
from kinema.dynamics.collision.contact_lists import ContactList
from kinema.dynamics.collision.contact_records import list_layout
from kinema.dynamics.constraints.warp_contact_records import DROPPED_KEY, ContactSource, compute_sort_keys
from kinema.ir import SCRATCH, ArenaOffset, Tracer
from kinema.ir.interpreter import interpret_kernel_part

CAPACITY, LISTED, N_ENVS = 5, 12, 6
COUNTS = [[0, 3, 5, 12, 2, 40], [0, 1, 4, 12, 9, 0]]
"""Contacts that were found for each of two lists, in each environment; of 40 there is no room for most."""


def two_lists() -> tuple[list[ContactSource], Any]:
    """Lists of sliding and of frictionless contacts; and the memory that they are in."""
    memory = SimpleNamespace(tracer=Tracer("table "), n_rows=0)

    def take(count: int) -> ArenaOffset:
        memory.n_rows += count
        return ArenaOffset(SCRATCH, memory.n_rows - count)

    sources = []
    for dimension in (3, 1):
        kind = ContactSpecialization(
            dimension, elliptic=dimension > 1, involves_world=False, has_restitution_or_stiction=False
        )
        contacts = take(LISTED * list_layout(kind).record_size)
        sources.append(ContactSource(ContactList(kind, LISTED, take(1), contacts), take(1), take(LISTED)))
    return sources, memory


def filled(sources: list[ContactSource], n_rows: int, order: np.random.Generator) -> np.ndarray:
    """Lists of contacts, some of which are as deep as others, in the order in which threads happened to find them."""
    rng, cells = np.random.default_rng(7), np.full((n_rows, N_ENVS), np.nan)
    for source, counts in zip(sources, COUNTS, strict=True):
        listed, before = (
            list_layout(source.contact_list.specialization),
            sum(COUNTS[0]) if source is sources[1] else 0,
        )
        for env, count in enumerate(counts):
            found = min(count, LISTED)
            depths, pairs = rng.integers(-4, 3, size=found) / 100.0, 1 + before + np.arange(found)
            cells[source.contact_list.count.row, env] = count
            cells[source.offset.row, env] = 0.0 if source is sources[0] else min(COUNTS[0][env], LISTED)
            for place, i in enumerate(order.permutation(found)):
                at = source.contact_list.contacts.row + listed.record_size * place
                depth, pair = (at + listed.offsets[x] for x in ("distance", "signed_pair"))
                cells[depth, env], cells[pair, env] = depths[i], (-1.0) ** i * pairs[i]
    return cells


def chosen(sources: list[ContactSource], cells: np.ndarray, env: int) -> list[tuple[float, float, bool]]:
    """All contacts of an environment by pair: the pair, the depth, whether it is kept."""
    found = []
    for source, counts in zip(sources, COUNTS, strict=True):
        listed = list_layout(source.contact_list.specialization)
        for i in range(min(counts[env], LISTED)):
            at, key = source.contact_list.contacts.row + listed.record_size * i, cells[source.sort_keys.row + i, env]
            depth, pair = (float(cells[at + listed.offsets[x], env]) for x in ("distance", "signed_pair"))
            assert key in (abs(pair), DROPPED_KEY)
            found.append((abs(pair), depth, bool(key == abs(pair))))
    return sorted(found)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy computes what others leave out
def test_the_deepest_contacts_are_kept_whoever_found_them_first() -> None:
    sources, memory = two_lists()
    compute_sort_keys(memory, sources, CAPACITY)
    program = memory.tracer.build(n_scratch=memory.n_rows)
    kept = []
    for seed in range(3):
        cells = filled(sources, memory.n_rows, np.random.default_rng(seed))
        interpret_kernel_part(program, {"state": np.zeros((1, N_ENVS)), SCRATCH: cells}, {})
        kept.append([chosen(sources, cells, env) for env in range(N_ENVS)])
        for env, found in enumerate(kept[-1]):
            own = [depth for _, depth, is_kept in found if is_kept]
            assert sorted(own) == sorted(depth for _, depth, _ in found)[:CAPACITY]
            first = sum(1 for pair, _, is_kept in found if is_kept and pair <= sum(COUNTS[0]))
            assert cells[sources[1].offset.row, env] == first, "those of the second list follow those of the first"
    assert kept[0] == kept[1] == kept[2]
