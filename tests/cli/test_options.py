"""Options of the command line."""

from typing import Any

import pytest
import typer.main

from momentalign import cli

COMMANDS: Any = typer.main.get_group(cli.app).commands


def test_help_has_no_square_brackets() -> None:
    """rich takes text in square brackets as markup and drops it; defaults go into `show_default`."""
    helps = {(name, option.name): getattr(option, "help", "") for name in COMMANDS for option in COMMANDS[name].params}
    assert len(helps) > 100
    assert [option for option, text in helps.items() if "[" in (text or "")] == []


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("'test_domain' should be one of 'test_domain'.", "'--test-domain' should be one of 'test_domain'."),
        ("'target' and 'domain' should be two columns.", "'--target' and '--domain' should be two columns."),
        ("'id_column' should be a name.", "'--id' should be a name."),
        ("'path' should be a file.", "'path' should be a file."),  # an argument, which has no name
        ("Column 'target' should hold numbers.", "Column 'target' should hold numbers."),
        ("'lr' should be a number.", "'lr' should be a number."),
        ("The disk is full.", "The disk is full."),
    ],
)
def test_messages_name_options_as_they_are_typed(message: str, named: str) -> None:
    assert COMMANDS["probe"].name_options(message) == named


def test_switches_are_named_by_their_first_form() -> None:
    assert COMMANDS["train"].name_options("'train_accuracy' should be on.") == "'--train-accuracy' should be on."
