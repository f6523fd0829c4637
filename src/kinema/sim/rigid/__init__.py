"""Rigid bodies: the tree, ways through it, and the algorithms of its dynamics."""
