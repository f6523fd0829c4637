"""The engine that owns the state of all environments and runs compiled programs."""
