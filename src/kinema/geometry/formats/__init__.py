"""One reader per mesh file format: bytes in, `LoadedMesh` out, `MeshError` for invalid input."""
