"""What operators see: for each subject the columns of its list, which terminal, pages, JSON and CSV render."""
