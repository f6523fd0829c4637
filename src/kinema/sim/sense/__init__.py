"""What sensors measure: a file for each family of them, and the list of all kinds."""
