"""GUI panels of the viewer page."""

from .display_panels import (
    QualityPanel as QualityPanel,
    add_layers_panel as add_layers_panel,
)
from .model_panels import (
    JointPanel as JointPanel,
    TreePanel as TreePanel,
    add_diagnostics_panel as add_diagnostics_panel,
)
from .plot_panel import PlotPanel as PlotPanel
from .recording_panel import RecordingPanel as RecordingPanel
from .simulation_panels import SimulationPanel as SimulationPanel
from .teleoperation_panels import (
    DRIVE_IK as DRIVE_IK,
    DrivePanel as DrivePanel,
    IKPanel as IKPanel,
)
