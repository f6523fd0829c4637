"""CUDA-only emission: warps, work queues, shared memory and cooperative solvers."""
