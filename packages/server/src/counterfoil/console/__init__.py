"""The operator's console: a process of its own, on which the service does not depend. docs/architecture.md maps it."""
