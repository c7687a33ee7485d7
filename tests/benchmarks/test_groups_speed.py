import pytest

from benchmarks.groups.speed import main, make_groups


def test_the_table_has_every_method(capsys: pytest.CaptureFixture[str]) -> None:
    X, y, attribute = make_groups(400, 3)
    assert (y == attribute).mean() > 0.9
    main(rows=120, features=3, methods=("balanced", "dfr"))
    head = capsys.readouterr().out.splitlines()[0]
    assert all(f" {name} " in head for name in ("plain", "balanced", "dfr", "search"))
    assert X.shape == (400, 3)
