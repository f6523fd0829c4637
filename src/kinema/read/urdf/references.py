"""The files that a URDF file refers to, each looked up once."""

from __future__ import annotations

from dataclasses import dataclass, field

from kinema.read.resolve import Resolved, Resolver


@dataclass(slots=True, eq=False)
class References:
    """Looks up meshes and textures."""

    resolver: Resolver
    file: str
    """The file in which the references stand."""
    known: dict[str, Resolved] = field(default_factory=dict)

    def find(self, uri: str) -> Resolved:
        """The file behind a reference, or the reason why there is none."""
        if uri not in self.known:
            self.known[uri] = self._look_up(uri)
        return self.known[uri]

    def _look_up(self, uri: str) -> Resolved:
        found = self.resolver.resolve(uri, self.file)
        try:
            if found.path is not None and not found.path.is_file():
                return Resolved(None, "it is not a file")
        except OSError as error:
            return Resolved(None, error.strerror or "it cannot be read")
        return found
