"""CPU-only emission: instrumentation of statements with a clock."""
