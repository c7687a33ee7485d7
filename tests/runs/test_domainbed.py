import pytest

from momentalign.selection import read_runs, select
from tests.runs.fake_sweep import make_config, record, write_domainbed_run, write_run


def line(step, inside, outside):
    values = {f"env{i}_in_acc": value for i, value in enumerate(inside)}
    return {"step": step, **values, **{f"env{i}_out_acc": value for i, value in enumerate(outside)}}


def test_folders_of_domainbed_are_read_and_selected(tmp_path):
    first = [line(0, (0.1, 0, 0), (0.5, 0.2, 0.2)), line(5000, (0.4, 0, 0), (0.6, 0.1, 0.2))]
    second = [line(0, (0.2, 0, 0), (0.7, 0.1, 0.1)), line(5000, (0.3, 0, 0), (0.5, 0.15, 0.1))]
    write_domainbed_run(tmp_path, "f00d", first, hparams_seed=0)
    write_domainbed_run(tmp_path, "beef", second, hparams_seed=1)
    sweep = read_runs(tmp_path)
    assert sweep.problems == []
    run = sweep.runs.loc["f00d"]
    assert (run.dataset, run.algorithm, run.test_domains, run.steps) == ("colored-mnist", "erm", ("+90%",), 5001)
    assert run.domains == ("+90%", "+80%", "-90%")
    assert sweep.runs["rows"].tolist() == [{}, {}]
    extrapolated = select(sweep, "extrapolated").iloc[0]
    assert (extrapolated.run, extrapolated.step) == ("beef", 5000)
    assert extrapolated.validation == pytest.approx(0.1 - 2 * 0.05)
    oracle = select(sweep, "oracle").iloc[0]
    assert (oracle.run, oracle.step, oracle.validation, oracle.test) == ("f00d", 5000, 0.6, 0.4)
    training = select(sweep, "training-domain").iloc[0]
    assert (training.run, training.step, training.test) == ("f00d", 0, 0.1)
    assert training.validation == pytest.approx(0.2)


def test_step_level_values_get_our_names(tmp_path):
    write_domainbed_run(tmp_path, "x", [{**line(0, (0, 0, 0), (0, 0, 0)), "penalty": 3.0, "env0_uda_acc": 0.25}])
    records = read_runs(tmp_path).records
    values = {(row.metric, row.split): row.value for row in records.itertuples() if row.metric != "accuracy"}
    assert {metric: value for (metric, _), value in values.items()} == {
        "loss": 0.5,
        "step_seconds": 0.02,
        "memory_gib": 0.1,
        "penalty": 3.0,
    }
    uda = records[records["split"] == "uda"]
    assert list(zip(uda["domain"], uda["value"], strict=True)) == [("+90%", 0.25)]


def test_leave_one_domain_out_with_upstreams_pairs(tmp_path):
    write_domainbed_run(tmp_path, "t", [line(0, (0.11, 0, 0), (0, 0, 0)), line(1, (0.22, 0, 0), (0, 0, 0))])
    write_domainbed_run(
        tmp_path, "v1", [line(0, (0, 0.9, 0), (0,) * 3), line(1, (0, 0.1, 0), (0,) * 3)], test_envs=[0, 1]
    )
    write_domainbed_run(
        tmp_path, "v2", [line(0, (0, 0, 0.2), (0,) * 3), line(1, (0, 0, 0.8), (0,) * 3)], test_envs=[2, 0]
    )
    row = select(read_runs(tmp_path), "leave-one-domain-out").iloc[0]
    assert (row.step, row.validation, row.test) == (0, pytest.approx(0.55), 0.11)


def test_equal_sets_go_to_the_one_listed_later(tmp_path):
    same = [line(0, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))]
    for number in (2, 0, 1):
        write_domainbed_run(tmp_path, f"run{9 - number}", same, hparams_seed=number)
    assert list(select(read_runs(tmp_path), "oracle")["hparams_seed"]) == [2]


def test_data_sets_without_a_list_of_domains_keep_numbers(tmp_path):
    write_domainbed_run(tmp_path, "x", [line(0, (0,) * 5, (0,) * 5)], dataset="SVIRO", test_envs=[3])
    run = read_runs(tmp_path).runs.iloc[0]
    assert (run.dataset, run.test_domains, run.domains[-1]) == ("SVIRO", ("env3",), "env4")


def test_unfinished_torn_and_foreign_folders_are_named(tmp_path):
    good = [line(0, (0,) * 3, (0,) * 3)]
    write_domainbed_run(tmp_path, "a", good, torn=True)
    write_domainbed_run(tmp_path, "b", good, hparams_seed=1, done=False)
    write_domainbed_run(tmp_path, "c", [])
    folder = write_domainbed_run(tmp_path, "d", good)
    (folder / "results.jsonl").write_text('{"accuracy": 1}\n')
    write_domainbed_run(tmp_path, "e", good, hparams_seed=2, test_envs=[7])
    sweep = read_runs(tmp_path)
    assert list(sweep.runs.index) == ["a", "b"]
    assert sweep.problems == [
        "a: the last line of its results.jsonl is incomplete and ignored.",
        "c: its results.jsonl holds no record; left out.",
        "d: its results.jsonl is not DomainBed's (KeyError: 'args'); left out.",
        "e: its results.jsonl is not DomainBed's (IndexError: tuple index out of range); left out.",
        "Unfinished, 1 of 2 runs: b.",
    ]


def test_a_run_that_upstream_started_again_holds_as_written_last(tmp_path):
    write_domainbed_run(
        tmp_path,
        "x",
        [line(0, (0.1, 0, 0), (0,) * 3), line(100, (0.2, 0, 0), (0,) * 3), line(0, (0.3, 0, 0), (0.9,) * 3)],
    )
    sweep = read_runs(tmp_path)
    assert "written twice" in sweep.problems[0]
    row = select(sweep, "training-domain").iloc[0]
    assert (row.step, row.test) == (0, 0.3)


def test_both_kinds_in_one_sweep(tmp_path):
    write_domainbed_run(tmp_path / "theirs", "x", [line(0, (0.5, 0, 0), (0.5,) * 3)])
    lines = [
        record(0, "accuracy", 0.7, domain, split) for domain in ("+90%", "+80%", "-90%") for split in ("in", "out")
    ]
    write_run(tmp_path / "ours", make_config(dataset="colored-mnist", algorithm="cma", test_domains=["+90%"]), lines)
    rows = select(read_runs([tmp_path / "theirs", tmp_path / "ours"]), "oracle")
    assert list(zip(rows["algorithm"], rows["test"], strict=True)) == [("cma", 0.7), ("erm", 0.5)]
