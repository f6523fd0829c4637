"""How an export ends early."""

from __future__ import annotations


class ExportError(Exception):
    """The export cannot go on; the text is a sentence for the user."""


class Cancelled(Exception):
    """The user pressed Cancel."""
