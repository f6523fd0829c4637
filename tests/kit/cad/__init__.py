"""A stand-in for the CAD program, random designs in it, and the add-in that exports them."""
