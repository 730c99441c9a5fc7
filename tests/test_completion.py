"""The scripts that complete the command line in a shell."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_hierexport.cli import _COMMANDS, main

_COMPLETE = """
source completion.sh
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_shtab_hierexport
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", "bash"])
    assert ended.value.code == 0
    (tmp_path / "completion.sh").write_text(capsys.readouterr().out)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def complete(words: str) -> list[str]:
    """Return what bash offers for the last word."""
    script = _COMPLETE.format(words=words)
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.usefixtures("folder")
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
class TestBash:
    def test_it_offers_every_command(self) -> None:
        assert set(_COMMANDS) <= set(complete('hierexport ""'))
        assert complete("hierexport val") == ["validate"]

    def test_it_offers_options_and_their_choices(self) -> None:
        assert "--allow-derived" in complete("hierexport validate --a")
        assert complete("hierexport diff a.onnx b.onnx --format mark") == ["markdown"]

    def test_it_offers_files(self, folder: Path) -> None:
        (folder / "tower.onnx").touch()
        assert complete("hierexport analyze tow") == ["tower.onnx"]


def test_zsh_has_a_script_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--print-completion", "zsh"])
    assert capsys.readouterr().out.startswith("#compdef hierexport")


def test_other_shells_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--print-completion", "cmd"]) == 4
    assert "invalid choice" in capsys.readouterr().err


@pytest.mark.parametrize("command", _COMMANDS)
def test_help_has_a_description_and_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"example: hierexport {command} " in capsys.readouterr().out
