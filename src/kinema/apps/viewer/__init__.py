"""Browser viewer (extra `viewer`): `kinema view FILE...` and `scene.show()`."""

from .displayed_model import DisplayedModel as DisplayedModel, ElementRef as ElementRef
from .open_viewer import make_displayed_models as make_displayed_models, show as show, view as view
from .viewer import Viewer as Viewer
