"""`kinema cache`: prints, clears and limits the cache on disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from kinema.core import CacheUsage, KinemaError, cache_dir, cache_limit, cache_usage, clear_cache, set_cache_limit

from .input_output import EXIT_OK, output_console, print_json, report_error

CACHE_KINDS = {
    "programs": "compiled programs with their tables",
    "code": "machine code of LLVM modules, by tier",
    "derived": "quantities derived from models",
    "geometry": "hulls, convex parts and distance fields",
    "images": "decoded images",
    "warp": "kernels of the renderer",
}
"""What the subfolders hold."""
_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_AGES = (("day", 86400), ("hour", 3600), ("minute", 60))


def format_bytes(n_bytes: int) -> str:
    """Format a size in decimal units."""
    for name, unit in _UNITS:
        if n_bytes >= unit:
            return f"{n_bytes / unit:,.1f} {name}"
    return f"{n_bytes} B"


def format_age(seconds: float) -> str:
    """Format a duration in the largest unit that fits."""
    for name, unit in _AGES:
        count = int(seconds // unit)
        if count:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def show_cache(*, json: bool) -> int:
    """Print folder, limit and a table of the entries by kind; returns the exit status."""
    found = cache_usage()
    if json:
        print_json(_usage_json(found))
    else:
        _print_usage(found)
    return EXIT_OK


def _usage_json(usages: Sequence[CacheUsage]) -> dict[str, object]:
    return {
        "folder": str(cache_dir()),
        "limit": cache_limit(),
        "entries": sum(usage.n_files for usage in usages),
        "bytes": sum(usage.n_bytes for usage in usages),
        "kinds": [
            {
                "kind": usage.kind,
                "entries": usage.n_files,
                "bytes": usage.n_bytes,
                "oldest_use": _iso_time(usage.oldest_use),
                "newest_use": _iso_time(usage.newest_use),
            }
            for usage in usages
        ],
    }


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


def _print_usage(usages: Sequence[CacheUsage]) -> None:
    console, now = output_console(), time.time()
    total = sum(usage.n_bytes for usage in usages)
    head = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    head.add_row(Text("folder", style="dim"), Text(str(cache_dir()), overflow="fold"))
    head.add_row(
        Text("limit", style="dim"), Text(f"{format_bytes(cache_limit())}, of which {format_bytes(total)} are used")
    )
    console.print(head)
    if not usages:
        console.print(Text("the cache is empty", style="dim"))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_footer=True, footer_style="bold")
    table.add_column("kind", "total")
    table.add_column("entries", f"{sum(usage.n_files for usage in usages):,}", justify="right")
    table.add_column("size", format_bytes(total), justify="right")
    table.add_column("oldest use", format_age(now - min(usage.oldest_use for usage in usages)))
    table.add_column("newest use", format_age(now - max(usage.newest_use for usage in usages)))
    table.add_column("what it is", style="dim")
    for usage in usages:
        ages = (format_age(now - usage.oldest_use), format_age(now - usage.newest_use))
        table.add_row(
            usage.kind, f"{usage.n_files:,}", format_bytes(usage.n_bytes), *ages, CACHE_KINDS.get(usage.kind, "")
        )
    console.print(table)


def clear_cache_entries(*, json: bool) -> int:
    """Delete all entries and print the freed size; returns the exit status."""
    before = sum(usage.n_bytes for usage in cache_usage())
    clear_cache()
    left = sum(usage.n_bytes for usage in cache_usage())
    if left:
        text = f"{format_bytes(left)} of {format_bytes(before)} in {cache_dir()} could not be deleted"
        return report_error(KinemaError(text), json)
    if json:
        print_json({"folder": str(cache_dir()), "freed": before})
    else:
        output_console().print(Text(f"{format_bytes(before)} deleted"))
    return EXIT_OK


def show_path(*, json: bool) -> int:
    """Print the folder; returns the exit status."""
    if json:
        print_json({"folder": str(cache_dir())})
    else:
        print(cache_dir())  # noqa: T201  in one line, however wide the terminal is
    return EXIT_OK


def show_limit(*, json: bool) -> int:
    """Print the limit; returns the exit status."""
    if json:
        print_json({"limit": cache_limit()})
    else:
        output_console().print(Text(format_bytes(cache_limit())))
    return EXIT_OK


def change_limit(limit: int, *, json: bool) -> int:
    """Store a new limit and delete the least recently used entries beyond it; returns the exit status."""
    before = sum(usage.n_bytes for usage in cache_usage())
    try:
        set_cache_limit(limit)
    except OSError as error:
        return report_error(KinemaError(f"the limit is not changed: {error}"), json)
    after = sum(usage.n_bytes for usage in cache_usage())
    if json:
        print_json({"limit": limit, "freed": before - after})
    else:
        freed = f"; {format_bytes(before - after)} deleted" if after < before else ""
        output_console().print(Text(f"limit: {format_bytes(limit)}, of which {format_bytes(after)} are used{freed}"))
    return EXIT_OK
