"""What the columns of a table say about its bills: voided, refunded, never sold, or a line that was cancelled."""
