"""Checks of the service, the store and deliveries, with advice, for commands and the console."""
