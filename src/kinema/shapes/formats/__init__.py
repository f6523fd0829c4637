"""One reader per mesh file format: bytes in, `LoadedMesh` out, `MeshError` when the bytes are no such mesh."""
