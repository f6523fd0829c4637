"""Constraints: Jacobian rows with reference acceleration and stiffness, and contacts with friction cones."""
