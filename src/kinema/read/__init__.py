"""L2: from files to the description. `kinema.read(file)` finds the format; `read_<format>` reads one."""

from kinema.foundation import make_callable

from .api import FORMATS as FORMATS, openusd_validation as openusd_validation, read as read
from .detect import detect_format as detect_format
from .resolve import Resolved as Resolved, Resolver as Resolver

make_callable(__name__, read)
