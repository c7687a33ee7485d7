import numpy as np
import pytest

from momentalign.cli._output import make_console
from momentalign.cli._table_scores import print_scores
from momentalign.tables import TableScores


@pytest.mark.parametrize(
    ("error", "printed"),
    [(0.997, "0.9970"), (1.0, "1.000"), (12.345, "12.35"), (1234.4, "1234"), (51234.4, "51234"), (float("nan"), "–")],
)
def test_numbers_of_a_column_have_the_same_digits(
    error: float, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = TableScores(("r2", "rmse"), ("ridge",), (("domain", "Bern", 40),), np.array([[[0.5, error]]]))
    print_scores(make_console(), scores, "held-out rows")
    cells = capsys.readouterr().out.splitlines()[4].split()
    assert cells[1:-1:2] == ["Bern", "40", "0.5000", printed]
