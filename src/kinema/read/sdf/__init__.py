"""SDFormat 1.4 to 1.12: text -> format objects (`parse`) -> frames (`frames`) -> description (`convert`)."""

from .read import read_sdf as read_sdf
