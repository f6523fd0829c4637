"""L6: what people start: the command line, and later the web viewer and the cluster."""
