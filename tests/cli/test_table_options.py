"""All commands that read tables have the same options for them."""

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from momentalign.cli import app
from momentalign.cli._options import option_groups
from momentalign.cli._table_options import TableOptions, check_dataset, words_of

NAMES = ("target", "domain", "group", "split", "sep", "encoding")


@pytest.mark.parametrize("command", ["diagnose", "evaluate", "probe", "sweep", "train", "data groups"])
def test_all_commands_have_them(command: str) -> None:
    found: Any = typer.main.get_command(app)
    for name in command.split():
        found = found.commands[name]
    options = {option: parameter for parameter in found.params for option in parameter.opts}
    for name in NAMES:
        assert options[f"--{name}"].default is None
        assert options[f"--{name}"].help
    assert "--table" not in options


def test_a_command_gets_what_was_given() -> None:
    taken: dict[str, Any] = {}

    @option_groups
    def command(name: str, table: TableOptions, number: int = 3) -> None:
        taken.update(name=name, table=table, number=number)

    program = typer.Typer()
    program.command()(command)
    result = CliRunner().invoke(program, ["t.csv", "--sep", ";", "--target", "label"])
    assert result.exit_code == 0, result.output
    assert taken == {"name": "t.csv", "table": {"target": "label", "sep": ";"}, "number": 3}
    assert words_of(taken["table"]) == ["--target", "label", "--sep", ";"]


def test_what_can_be_told_of_a_data_set_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("y,site,x\na,b,1\n")
    for name, table in (("colored-digits", {}), (str(tmp_path), {}), (str(path), {"domain": "site"})):
        check_dataset(name, table)
    check_dataset(f"{path}?domain=site", {})
    for gone in (tmp_path / "gone.csv", tmp_path / "gone"):
        with pytest.raises(FileNotFoundError, match="does not exist"):
            check_dataset(str(gone), {})
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"t\.xlsx should be a table .* Save it as CSV"):
        check_dataset(str(tmp_path / "t.xlsx"), {"target": "y"})
