"""The shops of a table, and their facts that no export has: the group, the time zone, the end of the business day."""
