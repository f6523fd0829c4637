"""CMake package of a compiled library: imported targets of the static and the shared library."""

from __future__ import annotations

from .interface import Interface

CONFIG = """# Imported targets: NAME::NAME (static library), and NAME::shared where there is a shared library.
get_filename_component(_NAME_folder "${CMAKE_CURRENT_LIST_FILE}" PATH)
if(NOT TARGET NAME::NAME)
  add_library(NAME::NAME STATIC IMPORTED)
  set_target_properties(NAME::NAME PROPERTIES
    IMPORTED_LOCATION "${_NAME_folder}/libNAME.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_NAME_folder}")
  if(EXISTS "${_NAME_folder}/libNAME.so")
    add_library(NAME::shared SHARED IMPORTED)
    set_target_properties(NAME::shared PROPERTIES
      IMPORTED_LOCATION "${_NAME_folder}/libNAME.so"
      INTERFACE_INCLUDE_DIRECTORIES "${_NAME_folder}")
  endif()
endif()
unset(_NAME_folder)
"""


def cmake_config(interface: Interface) -> str:
    """Text of `<name>Config.cmake`."""
    return CONFIG.replace("NAME", interface.name)
