"""The list of ways to find the forces of constraints."""

from __future__ import annotations

from ..settings import Solver
from .conjugate import ConjugateGradients
from .newton import Newton

METHODS: dict[Solver, type[Newton]] = {Solver.NEWTON: Newton, Solver.CG: ConjugateGradients}
