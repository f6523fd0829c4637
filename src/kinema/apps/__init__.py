"""L6: what people start: the command line, tasks to be learnt, and later the web viewer and the cluster."""
