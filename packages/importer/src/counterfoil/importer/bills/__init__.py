"""The bills of a table: which rows belong to bills, what identifies each bill, and when it was closed."""
