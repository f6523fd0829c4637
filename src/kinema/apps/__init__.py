"""L6: what people start: the command line, benchmarks, the viewer, tasks to be learnt, work on a cluster."""
