"""`python -m counterfoil`."""

from counterfoil.cli.main import run

if __name__ == "__main__":
    run()
