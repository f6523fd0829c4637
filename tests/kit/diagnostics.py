"""A collector of diagnostics that knows which of them a test expects."""

from __future__ import annotations

from kinema.core import Diagnostic, Diagnostics, Severity


class ClaimedDiagnostics(Diagnostics):
    """A collector that knows which of its warnings and errors the test expected."""

    def __init__(self) -> None:
        super().__init__()
        self.claimed: set[int] = set()

    def claim(self, code: str) -> Diagnostic:
        """Expect one diagnostic with this code: the first that was not claimed yet."""
        for item in self.items:
            if item.code == code and id(item) not in self.claimed:
                self.claimed.add(id(item))
                return item
        raise AssertionError(f"no unclaimed diagnostic {code!r} among: {[str(d) for d in self.items]}")

    def claim_all(self, code: str) -> list[Diagnostic]:
        """Expect one or more diagnostics with this code."""
        found = [d for d in self.items if d.code == code]
        if not found:
            raise AssertionError(f"no diagnostic {code!r} among: {[str(d) for d in self.items]}")
        self.claimed.update(id(d) for d in found)
        return found

    def unclaimed(self) -> list[Diagnostic]:
        """Warnings and errors that nobody expected."""
        return [d for d in self.items if d.severity is not Severity.NOTE and id(d) not in self.claimed]
