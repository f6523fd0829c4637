"""Reads robot descriptions: `kinema.read(file)` detects the format, `read_<format>` reads one format."""

from kinema.core import make_module_callable

from .api import (
    FORMATS as FORMATS,
    detect_format as detect_format,
    openusd_validation as openusd_validation,
    read as read,
)
from .cached_read import kept_reading as kept_reading, read_again as read_again
from .resolve import Resolved as Resolved, Resolver as Resolver

make_module_callable(__name__, read)
