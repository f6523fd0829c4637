"""Questions about where links are, and the coordinates that bring them somewhere: programs of their own."""
