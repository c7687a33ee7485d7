"""All commands that read tables have the same options for them."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from momentalign.cli import app
from momentalign.cli._table_options import TableOptions, table_options, words_of

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

    @table_options
    def command(name: str, table: TableOptions, number: int = 3) -> None:
        taken.update(name=name, table=table, number=number)

    program = typer.Typer()
    program.command()(command)
    result = CliRunner().invoke(program, ["t.csv", "--sep", ";", "--target", "label"])
    assert result.exit_code == 0, result.output
    assert taken == {"name": "t.csv", "table": {"target": "label", "sep": ";"}, "number": 3}
    assert words_of(taken["table"]) == ["--target", "label", "--sep", ";"]
