import json
import shutil

import pandas as pd
import pytest

import momentalign
from momentalign.selection import Sweep, read_runs
from tests.runs.fake_sweep import make_config, record, write_fake_probes, write_fake_sweep, write_run

LINES = [record(0, "loss", 1.0)]


def test_a_sweep_becomes_two_frames(tmp_path):
    folders = write_fake_sweep(tmp_path, algorithms=("erm", "cma"), trials=2, hparams=3)
    sweep = read_runs(tmp_path)
    assert list(sweep.runs.index) == sorted(folder.name for folder in folders)
    assert sweep.problems == []
    run = sweep.runs.loc[folders[-1].name]
    assert (run.dataset, run.algorithm, run.test_domains, run.trial) == ("colored-digits", "cma", ("-90%",), 1)
    assert run.domains == ("+90%", "+80%", "-90%")
    assert run.hparams["gradient_weight"] == 5000.0
    lines = [json.loads(line) for line in (folders[-1] / "records.jsonl").read_text().splitlines()]
    records = sweep.records[sweep.records["run"] == folders[-1].name]
    assert len(records) == len(lines)
    for row, line in zip(records.itertuples(), lines, strict=True):
        assert (row.step, row.metric, row.value) == (line["step"], line["metric"], line["value"])
        assert (row.domain == line["domain"]) if line["domain"] else (row.domain != row.domain)


def test_numbers_of_rows_are_read_where_they_are_recorded(tmp_path):
    rows = {"+90%": {"in": 8, "out": 2}}
    write_run(tmp_path, make_config(trial=0), LINES, name="new", rows=rows)
    write_run(tmp_path, make_config(trial=1), LINES, name="old")
    assert dict(read_runs(tmp_path).runs["rows"]) == {"new": rows, "old": {}}


def test_groups_are_kept(tmp_path):
    write_fake_probes(tmp_path, hparams=1)
    records = read_runs(tmp_path).records
    assert set(records["group"].dropna()) == set(records[records["metric"] == "group_accuracy"]["group"])
    assert records["group"].nunique() == 4


def test_several_folders_and_a_run_itself(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    write_run(one, make_config(trial=0), [], name="r0")
    write_run(two, make_config(trial=1), [], name="r1")
    write_run(two, make_config(trial=2), [], name="r2")
    assert list(read_runs([one, two]).runs.index) == ["r0", "r1", "r2"]
    assert list(read_runs(two / "r1").runs.index) == ["r1"]
    assert list(read_runs([two, two, two / "r1"]).runs.index) == ["r1", "r2"]


def test_equal_folder_names_are_told_apart(tmp_path):
    write_run(tmp_path / "one", make_config(trial=0), [record(0, "loss", 1.0)], name="run")
    write_run(tmp_path / "two", make_config(trial=1), [record(0, "loss", 2.0)], name="run")
    sweep = read_runs([tmp_path / "one", tmp_path / "two"])
    assert list(sweep.runs.index) == ["one/run", "two/run"]
    assert dict(zip(sweep.records["run"], sweep.records["value"], strict=True)) == {"one/run": 1.0, "two/run": 2.0}


def test_a_torn_last_line_is_left_out(tmp_path):
    write_run(tmp_path, make_config(), [record(0, "loss", 1.0)], name="torn", torn=True)
    write_run(tmp_path, make_config(trial=1), [record(0, "loss", 2.0)], name="whole")
    sweep = read_runs(tmp_path)
    assert list(sweep.records["value"]) == [1.0, 2.0]
    assert sweep.problems == ["torn: the last line of its records.jsonl is incomplete and ignored."]


def test_a_last_line_without_its_line_break_is_whole(tmp_path):
    folder = write_run(tmp_path, make_config(), [record(0, "loss", 1.0)])
    path = folder / "records.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    sweep = read_runs(tmp_path)
    assert list(sweep.records["value"]) == [1.0]
    assert sweep.problems == []


@pytest.mark.parametrize(
    "bad", ["\x00\x00", "[1, 2]", '{"step": 1}', "{", '{"step": "x", "metric": "loss", "value": 1}']
)
def test_a_bad_line_in_the_middle_is_named_and_the_rest_read(tmp_path, bad):
    first = write_run(tmp_path, make_config(), [record(0, "loss", 1.0)], name="first")
    write_run(tmp_path, make_config(trial=1), [record(0, "loss", 3.0)], name="second")
    good = json.dumps(record(1, "loss", 2.0))
    with (first / "records.jsonl").open("a") as file:
        file.write(f"{bad}\n{good}\n")
    sweep = read_runs(tmp_path)
    assert list(sweep.records["value"]) == [1.0, 2.0, 3.0]
    assert sweep.problems == ["first: line 2 of its records.jsonl cannot be read and is ignored."]


def test_blank_lines_numbers_of_other_kinds_and_unknown_keys_are_read(tmp_path):
    folder = write_run(tmp_path, make_config(), [], name="odd")
    lines = [
        '{"step": 0, "domain": null, "split": null, "metric": "loss", "value": NaN}',
        "",
        '{"step": 1.0, "metric": "loss", "value": 2, "more": [1]}',
        '{"step": 2, "metric": "loss", "value": null}',
        '{"step": 3, "metric": "loss", "value": Infinity}',
    ]
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n")
    sweep = read_runs(tmp_path)
    assert [problem.partition(";")[0] for problem in sweep.problems] == ["odd: erm diverged"]
    assert list(sweep.records["step"]) == [0, 1, 2, 3]
    assert list(sweep.records["value"].isna()) == [True, False, True, False]


def test_records_written_again_after_a_crash_hold_as_written_last(tmp_path):
    lines = [record(0, "loss", 1.0), record(100, "loss", 2.0), record(0, "loss", 3.0), record(200, "loss", 4.0)]
    write_run(tmp_path, make_config(), lines, name="again")
    sweep = read_runs(tmp_path)
    assert sorted(zip(sweep.records["step"], sweep.records["value"], strict=True)) == [(0, 3.0), (100, 2.0), (200, 4.0)]
    assert sweep.problems == ["Records written twice, the later ones are used: again."]


def test_a_run_of_a_newer_version_is_named(tmp_path):
    write_run(tmp_path, make_config(), LINES, name="new", format=9, momentalign="9.0")
    write_run(tmp_path, make_config(trial=1), LINES, name="old")
    sweep = read_runs(tmp_path)
    assert list(sweep.runs.index) == ["old"]
    assert sweep.problems == ["new: its run.json has format 9, but this version reads format 2; left out."]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', '{"format": 1, "config": []}', "null"])
def test_an_unreadable_run_is_named(tmp_path, text):
    write_run(tmp_path, make_config(), LINES, name="bad")
    write_run(tmp_path, make_config(trial=1), LINES, name="good")
    (tmp_path / "bad" / "run.json").write_text(text)
    sweep = read_runs(tmp_path)
    assert list(sweep.runs.index) == ["good"]
    assert len(sweep.problems) == 1
    assert sweep.problems[0].startswith("bad: its run.json ")
    assert sweep.problems[0].endswith("left out.")


def test_records_of_nothing_are_named(tmp_path):
    write_run(tmp_path, make_config(), LINES, name="good")
    bad = write_run(tmp_path, make_config(trial=1), LINES, name="bad")
    (bad / "run.json").unlink()
    assert read_runs(tmp_path).problems == ["bad: its run.json does not exist; left out."]


def test_failed_and_unfinished_runs_are_kept_and_named(tmp_path):
    write_run(tmp_path, make_config(), LINES, name="a", status="failed", error="RuntimeError: no")
    write_run(tmp_path, make_config(trial=1), LINES, name="b", status="running")
    write_run(tmp_path, make_config(trial=2), LINES, name="c")
    sweep = read_runs(tmp_path)
    assert list(sweep.runs["status"]) == ["failed", "running", "finished"]
    assert sweep.problems == ["a: failed (RuntimeError: no).", "Unfinished, 1 of 3 runs: b."]


def test_runs_that_failed_alike_share_a_line(tmp_path):
    for trial, error in enumerate(["busy", "busy", "no"]):
        write_run(tmp_path, make_config(trial=trial), LINES, name=f"run{trial}", status="failed", error=error)
    write_run(tmp_path, make_config(trial=3), LINES, name="good")
    assert read_runs(tmp_path).problems == ["Failed, 2 of 4 runs (busy): run0, run1.", "run2: failed (no)."]


def test_a_run_without_records_yet(tmp_path):
    folder = write_run(tmp_path, make_config(), [], status="running")
    (folder / "records.jsonl").unlink()
    sweep = read_runs(tmp_path)
    assert len(sweep.runs) == 1
    assert len(sweep.records) == 0


def test_two_runs_of_one_cell_do_not_both_count(tmp_path):
    lines = [record(0, "loss", 1.0)]
    write_run(tmp_path, make_config(steps=300), lines, name="short", started="2026-01-01T00:00:00+00:00")
    write_run(tmp_path, make_config(steps=500), lines, name="long", started="2026-01-02T00:00:00+00:00")
    write_run(tmp_path, make_config(steps=900), lines, name="late", started="2026-01-03", status="failed", error="x")
    sweep = read_runs(tmp_path)
    assert list(sweep.runs.index) == ["long"]
    assert set(sweep.records["run"]) == {"long"}
    assert len(sweep.problems) == 1
    assert "short (kept: long)" in sweep.problems[0]
    assert "late (kept: long)" in sweep.problems[0]
    assert "but not the same steps" in sweep.problems[0]


def test_one_hash_with_two_configurations_is_named(tmp_path):
    write_run(tmp_path, make_config(trial=0), LINES, name="a", hash="0123456789abcdef")
    write_run(tmp_path, make_config(trial=1), LINES, name="b", hash="0123456789abcdef")
    assert read_runs(tmp_path).problems == ["2 runs have the hash 0123456789abcdef and different configurations."]


def test_a_copied_sweep_counts_once(tmp_path):
    write_fake_sweep(tmp_path / "one", algorithms=("erm",), trials=1, hparams=1)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    sweep = read_runs([tmp_path / "one", tmp_path / "two"])
    assert len(sweep.runs) == 3
    assert "in the same configuration" in sweep.problems[0]


def test_folders_that_are_no_sweep(tmp_path):
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"empty holds no runs.*momentalign sweep"):
        read_runs(tmp_path / "empty")
    with pytest.raises(ValueError, match="does not exist"):
        read_runs(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file"):
        read_runs(tmp_path / "file")
    write_run(tmp_path / "good", make_config(), [])
    sweep = read_runs([tmp_path / "empty", tmp_path / "good"])
    assert len(sweep.runs) == 1
    assert "empty holds no runs" in sweep.problems[0]


def test_records_that_are_no_file_are_named(tmp_path):
    bad = write_run(tmp_path, make_config(), [record(0, "loss", 1.0)], name="bad")
    write_run(tmp_path, make_config(trial=1), [record(0, "loss", 2.0)], name="good")
    (bad / "records.jsonl").unlink()
    (bad / "records.jsonl").mkdir()
    sweep = read_runs(tmp_path)
    assert list(sweep.records["value"]) == [2.0]
    assert any(line.startswith("bad: its records") for line in sweep.problems)


def test_finished_runs_without_records_are_named(tmp_path):
    write_run(tmp_path, make_config(), [], name="empty")
    write_run(tmp_path, make_config(trial=1), [], name="gone")
    (tmp_path / "gone" / "records.jsonl").unlink()
    write_run(tmp_path, make_config(trial=2), [], name="begun", status="running")
    assert read_runs(tmp_path).problems == [
        "Unfinished, 1 of 3 runs: begun.",
        "Finished, but without a readable record, 2 of 3 runs: empty, gone.",
    ]


def test_a_sweep_that_cannot_be_read_at_all_is_one_short_line(tmp_path):
    for number in range(50):
        folder = tmp_path / f"{number:02d}"
        folder.mkdir()
        (folder / "run.json").write_text("[]")
    with pytest.raises(ValueError, match="None of the runs can be read") as error:
        read_runs(tmp_path)
    assert str(error.value).endswith("02: its run.json is damaged (not an object); left out. And 47 more like these.")


def test_data_that_changed_between_runs_are_named(tmp_path):
    for number, (data, started) in enumerate([("1234", "2026-01-01"), ("5678", "2026-01-02"), (None, "2026-01-03")]):
        folder = write_run(tmp_path, make_config(trial=number), [], name=f"r{number}")
        about = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(about | {"data": data, "started": started}))
    (problem,) = [line for line in read_runs(tmp_path).problems if "changed" in line]
    assert "changed between runs, which should not be compared: 1 of 2 are on its later content: r1." in problem


def test_results_are_one_row_a_run(tmp_path):
    def write(name, test, values, **more):
        config = make_config(dataset="toy", test_domains=test, hparams={"lr": 0.1, **more.pop("hparams", {})})
        lines = [record(step, "accuracy", value, *where) for step, *where, value in values]
        write_run(tmp_path, config, lines + more.pop("lines", []), name=name, domains=("a", "b", "c"), **more)

    times = {"started": "2026-01-01T00:00:00+00:00", "finished": "2026-01-01T00:01:30+00:00"}
    first = [
        (0, "a", "out", 0.1),
        (9, "a", "out", 0.8),
        (9, "b", "out", 0.6),
        (9, "c", "in", 0.5),
        (9, "c", "out", 0.4),
    ]
    write("one", ["c"], first, lines=[record(9, "loss", 2.0)], hparams={"weight": 3}, **times)
    write("two", ["a", "b"], [(4, "a", "in", 0.2), (4, "b", "in", 0.4), (4, "c", "out", 0.9)], status="running")
    write("lost", ["b"], first, lines=[record(9, "loss", None)])
    worst = [record(9, "worst_group_accuracy", value, split=split) for split, value in (("val", 0.7), ("test", 0.3))]
    write("worst", [], [(9, "a", "test", 0.9)], lines=worst)
    write("bare", ["a"], [], status="failed")
    frame = read_runs(tmp_path).to_frame()
    assert frame.index.name == "run"
    assert list(frame)[:8] == [
        *("dataset", "setting", "algorithm", "test_domain", "trial", "hparams_seed", "status", "seconds")
    ]
    assert frame["test_domain"].to_dict() == {"one": "c", "two": "a, b", "lost": "b", "worst": "", "bare": "a"}
    one = frame.loc["one"]
    assert (one["step"], one["loss"], one["seconds"], one["status"]) == (9, 2.0, 90.0, "finished")
    assert (one["hparams.lr"], one["hparams.weight"]) == (0.1, 3)
    expected = {"one": (0.7, 0.5), "two": (0.9, 0.3), "lost": (None, None), "worst": (0.7, 0.3), "bare": (None, None)}
    for name, (validation, test) in expected.items():
        for column, value in (("validation", validation), ("test", test)):
            assert (
                frame.at[name, column] == pytest.approx(value) if value is not None else pd.isna(frame.at[name, column])
            )
    assert pd.isna(frame.at["bare", "step"])
    assert pd.isna(frame.at["two", "seconds"])
    assert momentalign.read_runs(tmp_path).to_frame().equals(frame)


def test_time_is_that_of_runs_with_both_ends() -> None:
    start = "2026-01-01T10:00:00+00:00"
    ends = ["2026-01-01T10:00:09.500+00:00", None, "2026-01-01T11:00:01+00:00", "soon"]
    runs = pd.DataFrame({"started": start, "finished": ends})
    assert Sweep(runs, pd.DataFrame()).seconds().dropna().tolist() == [9.5, 3601]
