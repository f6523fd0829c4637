"""Ahead-of-time compilation: robots and scenes as C libraries with headers for C and C++ and a loader for Python."""

from .library import (
    FUNCTION_NAMES as FUNCTION_NAMES,
    CompiledLibrary as CompiledLibrary,
    compile_library as compile_library,
)
