"""Results that commands and the console share: checks with advice, the freshness of copies, and requests per day."""
