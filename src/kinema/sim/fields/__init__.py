"""Everything that can be asked about a state."""
