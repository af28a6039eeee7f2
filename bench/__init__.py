"""The benchmark, run by `make bench`, `make bench-quick` and `make bench-growth`. See docs/evidence/performance.md."""
