"""Runs Python programs in new processes that have already imported `requests`.

This module imports little, because the fork server imports it before it starts the first process.
"""

import os
import runpy
import subprocess
import sys
from pathlib import Path

from new_processes import new_processes

OUT, ERRORS = "stdout.txt", "stderr.txt"


def run_forked(
    folder: Path, words: list[str], environment: dict[str, str], patience_sec: float
) -> "subprocess.CompletedProcess[str]":
    """Run a program with its arguments in this folder; return the finished process."""
    process = new_processes().Process(target=_run, args=(folder, words, os.environ | environment))
    process.start()
    process.join(patience_sec)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(words, patience_sec)
    status, out, errors = process.exitcode, folder / OUT, folder / ERRORS
    process.close()
    return subprocess.CompletedProcess(words, status, out.read_text("utf-8"), errors.read_text("utf-8"))


def _run(folder: Path, words: list[str], environment: dict[str, str]) -> None:
    os.chdir(folder)
    for number, name in ((1, OUT), (2, ERRORS)):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")
