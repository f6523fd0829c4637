"""The command line, in this process."""

from __future__ import annotations

from typer.testing import CliRunner

from kinema.apps.cli import app


def run(*arguments: object, given: bytes = b"") -> tuple[int, str, str]:
    """`kinema` with arguments: its exit status, what it printed, and its complaints; it may not end otherwise."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr
