"""Runs the source once with the CDK's own runner, and loads its messages into DuckDB.

    python copy_to_duckdb.py sales.duckdb

The command reads COUNTERFOIL_URL and COUNTERFOIL_KEY from the environment.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def main() -> int:
    os.umask(0o077)
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "counterfoil.duckdb").resolve()
    config, state = target.with_suffix(".config.json"), target.with_suffix(".state.json")
    settings = {"url": os.environ["COUNTERFOIL_URL"].rstrip("/") + "/", "key": os.environ["COUNTERFOIL_KEY"]}
    if page_size := os.environ.get("COUNTERFOIL_PAGE_SIZE"):
        settings["page_size"] = int(page_size)
    config.write_text(json.dumps(settings))
    command = [str(Path(sys.executable).parent / "source-declarative-manifest"), "read", "--config", str(config)]
    for option, name in (
        ("catalog", "catalog.json"),
        ("manifest-path", "manifest.yaml"),
        ("components-path", "components.py"),
    ):
        command += [f"--{option}", str(FOLDER / name)]
    command += ["--state", str(state)] if state.exists() else []
    # The CDK runs components.py only if this environment variable is set.
    environment = os.environ | {"AIRBYTE_ENABLE_UNSAFE_CODE": "true"}
    source = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    loader = subprocess.Popen([sys.executable, str(FOLDER / "to_duckdb.py"), str(target)], stdin=source.stdout)
    if source.stdout:
        source.stdout.close()
    # The loader stores a mark only together with all rows of its pass, so nothing is lost if either program fails.
    failed = loader.wait() or source.wait()
    config.unlink()
    if failed:
        print("The copy was not completed. Run the same command again.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
