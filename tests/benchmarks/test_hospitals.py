from benchmarks.hospitals import TABLE, patients


def test_the_table_of_hospitals_is_what_its_script_makes() -> None:
    assert TABLE.read_text(encoding="utf-8") == patients()
