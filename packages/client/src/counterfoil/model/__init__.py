"""What all three packages share: the objects that the service publishes, times, and values of POS records."""
