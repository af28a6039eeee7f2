"""Shell completion: real shells accept the script, and completing a command name needs no store."""

import os
import sys
from pathlib import Path

import pytest

from cli.command import PYTHON
from counterfoil.program.completion import SHELLS, VARIABLE
from counterfoil.program.registry import registered
from deploy.programs import needs_program, output_of

pytestmark = pytest.mark.programs

NEEDS = {shell: needs_program(shell, shell) for shell in SHELLS}


def completed(words: str, number: int, *, cwd: Path) -> list[str]:
    """Return the completions that bash offers when Tab is pressed in the word at this index."""
    asked = {VARIABLE: "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
    return output_of(*PYTHON, cwd=cwd, env=os.environ | asked).splitlines()


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=NEEDS[shell]) for shell in SHELLS])
def test_the_shell_itself_accepts_the_script(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(output_of(*PYTHON, "completion", shell, cwd=tmp_path), "utf-8")
    output_of(shell, "-n", script)
    assert VARIABLE in script.read_text("utf-8")
    assert list(tmp_path.iterdir()) == [script]


@NEEDS["bash"]
def test_bash_completes_a_command_through_the_script(tmp_path: Path) -> None:
    program = tmp_path / "counterfoil"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m counterfoil "$@"\n', "utf-8")
    program.chmod(0o755)
    source = (
        'eval "$(counterfoil completion bash)"; COMP_WORDS=(counterfoil rec); COMP_CWORD=1; '
        '_counterfoil_completion counterfoil; echo "${COMPREPLY[@]}"'
    )
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    assert output_of("bash", "--norc", "-c", source, cwd=tmp_path, env=os.environ | path) == "reconcile\n"


def test_commands_subcommands_options_and_values_are_completed(tmp_path: Path) -> None:
    assert completed("counterfoil ", 1, cwd=tmp_path) == [f"plain,{name}" for name in registered()]
    assert "plain,issue" in completed("counterfoil keys ", 2, cwd=tmp_path)
    assert completed("counterfoil keys issue --fran", 3, cwd=tmp_path) == ["plain,--franchise"]
    assert completed("counterfoil completion z", 2, cwd=tmp_path) == ["plain,zsh"]
    assert list(tmp_path.iterdir()) == []
