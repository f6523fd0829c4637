"""What holds joints back: rows of constraints, and the forces that keep them."""
