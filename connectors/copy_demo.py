"""Starts the demo, copies it with one connector, and compares the copy with the service.

    python connectors/copy_demo.py dlt|airbyte

The Makefile runs it as `make connect-dlt` and so on.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONNECTORS = Path(__file__).parent
# The program of each connector, and the schema of the copy that it makes. The program's only argument is the target.
PROGRAMS = {"dlt": ("counterfoil_dlt.py", "counterfoil"), "airbyte": ("copy_to_duckdb.py", "main")}


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
    name = sys.argv[1]
    program, schema = PROGRAMS[name]
    python = CONNECTORS / name / ".venv" / "bin" / "python"
    with demo() as environment, tempfile.TemporaryDirectory() as folder:

        def run(*command: str | Path) -> None:
            subprocess.run([python.absolute(), *command], cwd=folder, env=os.environ | environment, check=True)

        for what in ("The first pass copies the demo.", "The second pass copies what has changed since."):
            print(what, flush=True)
            run((CONNECTORS / name / program).resolve(), "copy.duckdb")
        run((CONNECTORS / "check_copy.py").resolve(), "copy.duckdb", schema)
    return 0


if __name__ == "__main__":
    sys.exit(main())
