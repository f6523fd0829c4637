"""Where shapes touch: a file for each pair of kinds, and the loop over all pairs."""
