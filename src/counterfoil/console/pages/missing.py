"""The exception for an address that does not exist in the console."""


class NotFoundHere(Exception):
    """There is no such page, key or load. The message is shown to the operator."""
