"""Sleep: trees that lie still are left out of a step until something wakes them."""
