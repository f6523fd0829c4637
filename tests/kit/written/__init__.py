"""A description, the file that was written of it, and how the two correspond: one module for each format."""
