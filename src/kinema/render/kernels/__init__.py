"""What runs on the device: functions of Warp, and the kernels made of them. Imported when the first image is made.

All kernels of a module are defined before the first is launched: Warp compiles a module again when it grows.
"""

from . import cast as cast, denoise as denoise, paths as paths, place as place
