"""Tables of members: what their columns have, the questions about them, and their mapping."""
