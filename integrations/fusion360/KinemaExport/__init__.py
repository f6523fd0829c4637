"""A Fusion 360 add-in that writes CAD snapshots for Kinema."""
