"""Checks the packages that a server installs for known vulnerabilities. `make check` runs it.

It fails only on a vulnerability. If the audit cannot run, for example offline or
without pip-audit, it prints a sentence saying that nothing was checked.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REQUIREMENTS = Path(__file__).parents[2] / "deploy" / "requirements.txt"
WAIT_SEC = 120


def audited(command: list[str]) -> tuple[int, str]:
    """Run an audit command; return its exit status and a sentence that describes the result."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_SEC)
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        return 0, f"The vulnerability audit was skipped: it took more than {WAIT_SEC} s."
    except (OSError, ValueError, KeyError, TypeError):
        return 0, "The vulnerability audit was skipped: pip-audit is not installed or cannot reach its index."
    looked_up = [package for package in found if "vulns" in package]
    known = [
        f"{package['name']} {package['version']}: {vuln['id']}" for package in looked_up for vuln in package["vulns"]
    ]
    if known:
        return 1, "These packages have known vulnerabilities. Update them:\n" + "\n".join(known)
    if not looked_up:
        return 0, "The vulnerability audit was skipped: pip-audit cannot reach its index."
    missed = len(found) - len(looked_up)
    rest = f"; {missed} could not be looked up" if missed else ""
    return 0, f"No known vulnerability in {len(looked_up)} packages{rest}."


def main() -> int:
    options = ["--requirement", str(REQUIREMENTS), "--no-deps", "--disable-pip", "--format", "json"]
    status, told = audited([sys.executable, "-m", "pip_audit", "--progress-spinner", "off", *options])
    sys.stdout.write(f"{told}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
