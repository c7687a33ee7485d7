from momentalign.bench._linear import LinearSize, linear_fits


def test_rows_of_the_table() -> None:
    rows = list(linear_fits((LinearSize(300, 5, 2), LinearSize(300, 5, 3)), rounds=1))
    assert [row.name for row in rows] == ["LogisticRegression", "aligned", "path of 5"] * 2
    assert rows[0].time_ratio == 1
    assert all(row.seconds is not None and row.seconds > 0 for row in rows)
