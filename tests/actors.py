"""An operator for tests that change keys, and what the audit log records about a change."""

from counterfoil.domain.audit import Act, Actor

OPERATOR = Actor("alice", "cli", "back-office")
# What is recorded about a change of a key, at which time and by whom.
CHANGED = (Act.KEY_CHANGED, 5, OPERATOR)
