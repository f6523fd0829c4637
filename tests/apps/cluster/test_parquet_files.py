"""Parquet files of datasets: what is read is what was written, in row groups with statistics."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from kinema.apps.cluster import dataset
from kinema.apps.cluster.dataset import arrow_schema, read_arrow_table, to_parquet

pyarrow: Any = pytest.importorskip("pyarrow", reason="needs Apache Arrow: kinema[cluster]")
files: Any = pytest.importorskip("pyarrow.parquet")


def some(rows: int, width: int) -> dict[str, np.ndarray]:
    """Columns of all kinds: hardly ever equal, always equal, not finite, negative."""
    generator = np.random.default_rng(rows)
    return {
        "episode": np.arange(rows) // 7 - 3,
        "step": (np.arange(rows) % 7).astype(np.int32),
        "obs": generator.normal(size=(rows, width)).astype(np.float32),
        "action": np.full((rows, 12), 0.5, np.float32),
        "return": generator.normal(size=rows),
        "reward": np.full(rows, np.nan, np.float32),
        "done": generator.random(rows) < 0.5,
        "touching": generator.random((rows, 3)) < 0.5,
    }


def refuse_others(found: dict[str, np.ndarray], table: Any) -> None:
    """What was read has to be what was written, to the bit, as lists of a fixed size."""
    assert table.schema.equals(arrow_schema(found))
    for name, values in found.items():
        there = table.column(name).combine_chunks()
        flat = (there.flatten() if values.ndim > 1 else there).to_numpy(zero_copy_only=False)
        assert flat.tobytes() == values.tobytes(), name


@pytest.mark.parametrize(("rows", "width"), [(1, 1), (7, 3), (8, 1), (500, 37), (12_800, 37)])
def test_arrow_reads_what_was_written(rows: int, width: int) -> None:
    found = some(rows, width)
    refuse_others(found, read_arrow_table(to_parquet(found), "part.parquet"))


def test_row_groups_have_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bounds of integer columns, readers leave out row groups that they do not want."""
    monkeypatch.setattr(dataset, "MAX_ROW_GROUP_ROWS", 300)
    found = some(1000, 37)
    content = to_parquet(found)
    refuse_others(found, read_arrow_table(content, "part.parquet"))
    about = files.ParquetFile(io.BytesIO(content)).metadata
    assert about.num_row_groups == 4
    bounds = [about.row_group(i).column(0).statistics for i in range(4)]
    assert [(b.min, b.max) for b in bounds] == [(-3, 39), (39, 82), (82, 125), (125, 139)]
    chosen = files.read_table(io.BytesIO(content), filters=[("episode", "==", 60)])
    assert chosen.num_rows == 7


def test_repeated_values_are_compressed_and_others_do_not_grow() -> None:
    found = some(2000, 37)
    assert len(to_parquet(found)) < 1.1 * (found["obs"].nbytes + found["return"].nbytes)


def test_columns_without_numbers_are_left_out() -> None:
    """Of robots that nobody moves there are no actions."""
    found = {"episode": np.arange(3), "action": np.zeros((3, 0), np.float32)}
    assert read_arrow_table(to_parquet(found), "part.parquet").column_names == ["episode"]
