"""Entry point of `python -m counterfoil` and of the `counterfoil` command.

Worker processes import this module again, so it must not import anything that a worker does not need.
"""

from typing import NoReturn


def run() -> NoReturn:
    from counterfoil.cli import main

    main.run()


if __name__ == "__main__":
    run()
