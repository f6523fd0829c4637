"""Rigid-body dynamics: forward kinematics, RNEA, CRBA, ABA, time integration and the energy limiter."""
