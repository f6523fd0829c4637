"""Intrinsics: algorithms that a warp executes cooperatively, as specification, reference evaluation and LLVM code."""
