"""Fields of what holds links and joints together."""

from __future__ import annotations

from ..constrain.couplings import coupling_blocks, fill_couplings, write_errors
from ..constrain.rows import Rows
from ..constrain.ties import fill_ties, tie_blocks, write_gaps
from ..step import Step


def ties(now: Step) -> None:
    """How far what is tied is apart."""
    rows = Rows(now.s, tie_blocks(now.s.model, now.s.nodes))
    fill_ties(now.known, rows)
    write_gaps(now.s, rows)


def couplings(now: Step) -> None:
    """How far followers are from where they should be."""
    rows = Rows(now.s, coupling_blocks(now.s.model, now.s.nodes))
    fill_couplings(now.known, rows)
    write_errors(now.s, rows)
