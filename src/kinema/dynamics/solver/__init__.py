"""Constraint solvers: Newton and conjugate gradient minimisation of the convex constraint cost.

One thread per environment, all trees together or island by island; or one warp per environment with a dense or a
block-sparse Hessian.
"""
