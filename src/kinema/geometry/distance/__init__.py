"""Distances from points to meshes, winding numbers, and signed distance fields."""
