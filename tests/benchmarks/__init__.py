"""Benchmarks: ratios measured in one run, each its own module with `main(arguments)`; `make bench` runs them all."""
