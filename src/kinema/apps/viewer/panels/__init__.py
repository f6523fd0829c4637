"""The panels of the page: each is a function that adds its elements and says what they do."""

from .checks import add_checks as add_checks
from .drawing import DrawingPanel as DrawingPanel
from .joints import JointPanel as JointPanel
from .layers import add_layers as add_layers
from .pictures import add_pictures as add_pictures
from .playing import PlayingPanel as PlayingPanel
from .plots import PlotPanel as PlotPanel
from .tree import TreePanel as TreePanel
