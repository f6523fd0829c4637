"""USD tests need OpenUSD, which has no build for some machines: see `test_openusd_is_installed`."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pxr") else ["*"]
