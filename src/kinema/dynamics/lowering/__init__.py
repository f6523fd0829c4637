"""Lowering of dynamics algorithms to programs: unrolled code, loops over identical components, loops over tables."""
