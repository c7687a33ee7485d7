"""Tables over generated files: read and encoded, or refused in one sentence; text for terminals and CSV files."""

import csv
import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from momentalign._csv import csv_text, frame_csv, plain_cell
from momentalign._format import printable
from momentalign.data import table_dataset
from momentalign.tables import fit_encoder, plan_diagnosis, plan_probe, read_table
from tests.generated.cases import answer, cases
from tests.generated.strategies.tables import frames, odd_texts, table_files


def in_file(file: tuple[str, bytes], call: Any) -> Any:
    """What a call with the path of a file answers."""
    name, content = file
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        return answer(lambda: call(path))


@cases(file=table_files(), task=st.sampled_from(["auto", "auto", "classification", "regression"]))
def test_files_are_planned_or_refused(file: tuple[str, bytes], task: str) -> None:
    plan = in_file(file, lambda path: plan_probe(path, task=task))
    if plan is not None:
        assert np.isfinite(plan.features).all()
        assert len(plan.features) == len(plan.rows)
        for fold in plan.folds:
            assert not set(fold.train) & set(fold.test)


@cases(file=table_files(), loss=st.sampled_from(["auto", "auto", "cross_entropy", "squared_error"]))
def test_files_are_diagnosed_or_refused(file: tuple[str, bytes], loss: str) -> None:
    plan = in_file(file, lambda path: plan_diagnosis(path, loss=loss))
    if plan is not None:
        assert np.isfinite(plan.rows.features).all()
        assert np.isfinite(plan.rows.targets).all()
        assert np.isfinite(plan.numbers).all()
        assert len(plan.rows.features) == len(plan.rows.targets) == len(plan.rows.domains) == len(plan.numbers)


@cases(file=table_files())
def test_files_are_data_sets_or_refused(file: tuple[str, bytes]) -> None:
    dataset = in_file(file, lambda path: table_dataset(read_table(path), name="t"))
    if dataset is not None:
        rows = sum(len(split) for splits in dataset.domains.values() for split in splits.values())
        assert rows > 0
        for splits in dataset.domains.values():
            for split in splits.values():
                assert split.inputs.content() == split.inputs.content()


@cases(frame=frames)
def test_encoders_give_finite_numbers_and_the_same_again(frame: pd.DataFrame) -> None:
    fitted = answer(lambda: fit_encoder(frame))
    if fitted is not None:
        encoder, encoded, notes = fitted
        assert np.isfinite(encoder.transform(encoded.matrix)).all()
        assert all(note.endswith(".") for note in notes)
        again = encoder.encode(frame)
        assert np.array_equal(again.matrix, encoded.matrix)
        assert again.missing == encoded.missing
        assert not again.unseen


@cases(rows=st.lists(st.lists(odd_texts, min_size=2, max_size=2), min_size=1, max_size=4))
def test_csv_has_no_formulas_and_loses_nothing(rows: list[list[str]]) -> None:
    read = list(csv.reader(io.StringIO(csv_text(rows), newline="")))
    assert [[plain_cell(cell) for cell in row] for row in read] == rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read += list(csv.reader(io.StringIO(frame_csv(pd.DataFrame(rows, dtype=object)), newline="")))[1:]
    for cell in (cell for row in read for cell in row):
        assert not cell.startswith(("=", "@", "\t", "\r"))
        assert not cell.startswith(("+", "-")) or cell[1:2].isdigit() or cell[1:] in ("inf", "nan")


@cases(text=st.text())
def test_printed_text_is_printable(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
