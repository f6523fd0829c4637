"""L2: from the description to files. `kinema.write(robot, file)` finds the format; what it cannot say is reported."""

from kinema.foundation import make_callable

from .api import FORMATS as FORMATS, format_of as format_of, write as write
from .files import remove_drafts as remove_drafts
from .matters import Matter as Matter
from .report import Action as Action, Loss as Loss, LossReport as LossReport
from .sources import sources_of as sources_of
from .usd.paths import link_paths as link_paths

make_callable(__name__, write)
