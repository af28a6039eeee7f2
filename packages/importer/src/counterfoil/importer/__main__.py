"""`python -m counterfoil.importer`: answers requests to convert exports until its standard input ends."""

from counterfoil.importer.process import run

if __name__ == "__main__":
    run()
