"""Names of tables that say how to read them."""

from pathlib import Path

import pytest

from momentalign._table_spec import fill_spec, inherit_spec, resolve_spec, spec_path, split_spec, table_spec


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"target": "body mass", "domain": "Insel"},
        {"target": "a&b", "group": "100%", "split": "what?", "sep": "\t"},
        {"domain": "x=y", "sep": "&", "encoding": "utf-16"},
        {"target": "%41", "sep": "tab"},
    ],
)
def test_round_trip(options: dict[str, str]) -> None:
    spec = table_spec("data/t?.csv.gz", **options)
    assert split_spec(spec) == ("data/t?.csv.gz", options)
    assert spec_path(spec) == "data/t?.csv.gz"
    assert table_spec(spec) == spec


def test_a_name_says_nothing_but_what_differs() -> None:
    assert table_spec(Path("t.csv"), target="y", domain="domain") == "t.csv"
    assert table_spec("t.csv?domain=site&target=y", group="sex") == "t.csv?domain=site&group=sex"
    assert table_spec("t.CSV", sep=";") == "t.CSV?sep=;"


@pytest.mark.parametrize("name", ["pacs", "folder/images", "encoders/vit?size=112", "?"])
def test_other_names_are_left_alone(name: str) -> None:
    assert table_spec(name) == resolve_spec(name) == inherit_spec(name, {"sep": ";"}) == name
    assert split_spec(name) == (name, {})


@pytest.mark.parametrize("options", ["", "target", "target=", "size=3", "target=a&target=b", "target=a&"])
def test_options_that_are_none(options: str) -> None:
    with pytest.raises(ValueError, match=r"should have target, domain, .* after '\?'"):
        split_spec(f"t.csv?{options}")


def test_options_that_contradict_the_name() -> None:
    assert table_spec("t.csv?domain=site", domain="site") == "t.csv?domain=site"
    with pytest.raises(ValueError, match=r"'--domain' is 'town', but 't\.csv\?domain=site' says 'site'\. Omit one"):
        table_spec("t.csv?domain=site", domain="town")


def test_only_tables_have_options() -> None:
    with pytest.raises(ValueError, match=r"'--domain' is for tables \(\.csv, .*\), but pacs is none\. Omit it"):
        table_spec("pacs", domain="site")


def test_another_kind_of_file_should_be_saved_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    path.touch()
    with pytest.raises(
        ValueError, match=r"t\.xlsx should be a table \(\.csv, .*\), but is '\.xlsx'\. Save it as CSV\."
    ):
        table_spec(path, domain="site")


def test_options_of_another_table_as_far_as_they_fit() -> None:
    others = {"target": "label", "sep": ";", "encoding": "cp1252"}
    assert inherit_spec("t.csv?target=y2", others) == "t.csv?target=y2&sep=;&encoding=cp1252"
    assert inherit_spec("t.tsv", others) == "t.tsv?target=label&encoding=cp1252"
    assert inherit_spec("t.parquet", others) == "t.parquet?target=label"
    assert fill_spec("t.csv", {"target": "y"}) == "t.csv"


def test_names_mean_the_same_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").touch()
    monkeypatch.chdir(tmp_path)
    assert resolve_spec("t.csv?domain=site") == f"{tmp_path.resolve()}/t.csv?domain=site"
    assert resolve_spec("gone.csv?domain=site") == "gone.csv?domain=site"
