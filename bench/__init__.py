"""The benchmark: `make bench`, `make bench-quick`, `make bench-growth`. See docs/performance.md."""
