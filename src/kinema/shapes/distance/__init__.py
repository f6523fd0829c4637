"""How far points are from a mesh, on which side, and grids of that."""
