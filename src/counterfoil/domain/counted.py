"""Numbers with their nouns, in the singular or the plural."""


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun, such as `1 line` or `2,000 lines`."""
    return f"{number:,} {singular if number == 1 else plural or f'{singular}s'}"
