"""The exception for an address that does not exist in the console."""


class NotFound(Exception):
    """The page, the key or the load does not exist. The message is shown to the operator."""
