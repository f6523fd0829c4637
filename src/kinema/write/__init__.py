"""Writers of robot descriptions: `kinema.write(description, path)` writes USD, MJCF, URDF or SDFormat files.

The suffix of the path selects the format; the returned loss report lists everything that the format cannot represent.
"""

from kinema.core import make_module_callable
from kinema.tokens import WriteOptions as WriteOptions

from .api import FORMATS as FORMATS, resolve_format as resolve_format, write as write
from .files import remove_staging_folders as remove_staging_folders, source_files as source_files
from .loss_report import Action as Action, Loss as Loss, LossCategory as LossCategory, LossReport as LossReport
from .usd.prim_paths import link_prim_paths as link_prim_paths

make_module_callable(__name__, write)
