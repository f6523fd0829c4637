"""`kinema cache`: what the cache on disk holds, and its limit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from kinema.foundation import (
    KinemaError,
    Usage,
    cache_dir,
    cache_limit,
    cache_usage,
    clear_cache,
    set_cache_limit,
)

from .diagnostics_table import output_console
from .reading import FINE, print_json, report_error

KINDS = {
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


def size_text(count: int) -> str:
    """A number of bytes, in decimal units as disks have them."""
    for name, unit in _UNITS:
        if count >= unit:
            return f"{count / unit:,.1f} {name}"
    return f"{count} B"


def age_text(seconds: float) -> str:
    """How long ago something was, in the largest unit that fits."""
    for name, unit in _AGES:
        count = int(seconds // unit)
        if count:
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "just now"


def show_cache(*, json: bool) -> int:
    """Print the folder, the limit and a table of the entries by kind; the exit status."""
    found = cache_usage()
    if json:
        print_json(_facts(found))
    else:
        _print(found)
    return FINE


def _facts(found: Sequence[Usage]) -> dict[str, object]:
    return {
        "folder": str(cache_dir()),
        "limit": cache_limit(),
        "entries": sum(usage.files for usage in found),
        "bytes": sum(usage.bytes for usage in found),
        "kinds": [
            {
                "kind": usage.kind,
                "entries": usage.files,
                "bytes": usage.bytes,
                "oldest_use": _iso(usage.oldest),
                "newest_use": _iso(usage.newest),
            }
            for usage in found
        ],
    }


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


def _print(found: Sequence[Usage]) -> None:
    console, now = output_console(), time.time()
    total = sum(usage.bytes for usage in found)
    head = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    head.add_row(Text("folder", style="dim"), Text(str(cache_dir()), overflow="fold"))
    head.add_row(Text("limit", style="dim"), Text(f"{size_text(cache_limit())}, of which {size_text(total)} are used"))
    console.print(head)
    if not found:
        console.print(Text("the cache is empty", style="dim"))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_footer=True, footer_style="bold")
    table.add_column("kind", "total")
    table.add_column("entries", f"{sum(usage.files for usage in found):,}", justify="right")
    table.add_column("size", size_text(total), justify="right")
    table.add_column("oldest use", age_text(now - min(usage.oldest for usage in found)))
    table.add_column("newest use", age_text(now - max(usage.newest for usage in found)))
    table.add_column("what it is", style="dim")
    for usage in found:
        ages = (age_text(now - usage.oldest), age_text(now - usage.newest))
        table.add_row(usage.kind, f"{usage.files:,}", size_text(usage.bytes), *ages, KINDS.get(usage.kind, ""))
    console.print(table)


def clear(*, json: bool) -> int:
    """Delete all entries and say how much that was; the exit status."""
    before = sum(usage.bytes for usage in cache_usage())
    clear_cache()
    left = sum(usage.bytes for usage in cache_usage())
    if left:
        text = f"{size_text(left)} of {size_text(before)} in {cache_dir()} could not be deleted"
        return report_error(KinemaError(text), json)
    if json:
        print_json({"folder": str(cache_dir()), "freed": before})
    else:
        output_console().print(Text(f"{size_text(before)} deleted"))
    return FINE


def show_path(*, json: bool) -> int:
    """Print the folder, and nothing else; the exit status."""
    if json:
        print_json({"folder": str(cache_dir())})
    else:
        print(cache_dir())  # noqa: T201  in one line, however wide the terminal is
    return FINE


def show_limit(*, json: bool) -> int:
    """Print the limit; the exit status."""
    if json:
        print_json({"limit": cache_limit()})
    else:
        output_console().print(Text(size_text(cache_limit())))
    return FINE


def change_limit(limit: int, *, json: bool) -> int:
    """Store another limit and delete the least recently used entries beyond it; the exit status."""
    before = sum(usage.bytes for usage in cache_usage())
    try:
        set_cache_limit(limit)
    except OSError as error:
        return report_error(KinemaError(f"the limit is not changed: {error}"), json)
    after = sum(usage.bytes for usage in cache_usage())
    if json:
        print_json({"limit": limit, "freed": before - after})
    else:
        freed = f"; {size_text(before - after)} deleted" if after < before else ""
        output_console().print(Text(f"limit: {size_text(limit)}, of which {size_text(after)} are used{freed}"))
    return FINE
