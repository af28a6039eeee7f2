"""Starts the demo, copies it with dlt, and compares the copy with the service. `make connect-dlt` runs it."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONNECTORS = Path(__file__).parent
PROGRAM = CONNECTORS / "dlt" / "counterfoil_dlt.py"
PYTHON = CONNECTORS / "dlt" / ".venv" / "bin" / "python"


@contextmanager
def demo() -> Iterator[dict[str, str]]:
    """Serve the demo's data; yield the URL and a franchise key as environment variables."""
    command = [
        sys.executable,
        "-m",
        "counterfoil",
        "demo",
        "--port",
        "0",
        "--json",
        *os.environ.get("ARGS", "").split(),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            sys.exit("The demo did not start. Run `make demo` to see why.")
        told = json.loads(line)
        [key] = [key["key"] for key in told["keys"] if key["purpose"] == "franchise"]
        yield {"COUNTERFOIL_URL": told["baseUrl"], "COUNTERFOIL_KEY": key}
    finally:
        process.terminate()
        process.wait()


def main() -> int:
    with demo() as environment, tempfile.TemporaryDirectory() as folder:

        def run(*command: str | Path) -> None:
            subprocess.run([PYTHON.absolute(), *command], cwd=folder, env=os.environ | environment, check=True)

        for what in ("The first pass copies the demo.", "The second pass copies what has changed since."):
            print(what, flush=True)
            run(PROGRAM.resolve(), "copy.duckdb")
        run((CONNECTORS / "check_copy.py").resolve(), "copy.duckdb", "counterfoil")
    return 0


if __name__ == "__main__":
    sys.exit(main())
