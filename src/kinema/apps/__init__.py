"""L6: applications: command line, benchmarks, browser viewer, reinforcement-learning tasks, cluster execution."""
