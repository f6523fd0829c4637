"""Kinematic tree, tree traversals traced as table loops, joint-space matrices and transmissions."""
