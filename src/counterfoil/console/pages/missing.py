"""The exception for an address that leads nowhere."""


class NotFoundHere(Exception):
    """There is no such page, key or load. The message is shown to the operator."""
