"""`python -m counterfoil`, and the command itself.

A worker process imports this file again, so it brings nothing along that a worker does not serve with.
"""

from typing import NoReturn


def run() -> NoReturn:
    from counterfoil.cli import main

    main.run()


if __name__ == "__main__":
    run()
