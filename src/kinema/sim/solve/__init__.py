"""Solvers: the accelerations that forces and constraints agree on."""
