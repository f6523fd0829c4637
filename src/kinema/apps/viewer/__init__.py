"""The viewer in the browser (extra `viewer`): `kinema view FILE...` and `scene.show()`."""

from .exhibit import Exhibit as Exhibit, Part as Part
from .opening import exhibits_of as exhibits_of, show as show, view as view
from .viewer import Viewer as Viewer
