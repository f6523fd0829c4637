"""What runs programs."""
