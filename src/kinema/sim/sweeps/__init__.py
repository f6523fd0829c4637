"""Going through a robot: its tree, and loops over tables of its parts."""
