"""Names that every format accepts."""

from __future__ import annotations

import re
import unicodedata


def clean_name(name: str) -> str:
    """The name as a plain identifier (letters, digits, underscore): what strict formats would call it."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = re.sub(r"[^A-Za-z0-9_]", "_", plain)
    if not plain:
        return "_"
    return plain if not plain[0].isdigit() else "_" + plain


def unique_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, or the first of `name_1`, `name_2`, ... that is free; it is then taken."""
    name, count = wanted, 0
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name
