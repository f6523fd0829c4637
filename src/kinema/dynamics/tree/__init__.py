"""Kinematic tree, tree traversals traced as for-each loops, joint-space matrices and transmissions."""
