import json
import subprocess
import sys

from momentalign.runs import (
    DivergedError,
    RunConfig,
    find_clashes,
    read_run,
    record_failure,
    run_state,
)


def config_of(**changes):
    config = {"dataset": "colored-digits", "algorithm": "erm", "test_domains": ("-90%",), "trial": 0, "hparams_seed": 0}
    return RunConfig(**config | {"hparams": {"lr": 0.1}, "steps": 5, "record_every": 5} | changes)


def test_what_a_folder_says(tmp_path):
    config = config_of()
    folder = tmp_path / config.hash()
    assert run_state(folder, config) == ("new", None)
    record_failure(folder, config, ("+90%", "+80%", "-90%"), "no")
    assert run_state(folder, config) == ("failed", "no")
    assert run_state(folder, config_of(trial=1))[0] == "foreign"
    about = read_run(folder)
    for status in ("running", "finished"):
        (folder / "run.json").write_text(json.dumps({**about, "status": status}))
        assert run_state(folder, config)[0] == status
    (folder / "run.json").write_text(json.dumps({**about, "format": 9}))
    assert run_state(folder, config)[0] == "foreign"
    for damaged in ("{", "[]", "{}"):
        (folder / "run.json").write_text(damaged)
        assert run_state(folder, config)[0] == "damaged"
    (folder / "run.json").unlink()
    (folder / "run.json").mkdir()
    assert run_state(folder, config) == (
        "foreign",
        f"{folder}/run.json cannot be read (Is a directory). Use another --out.",
    )


def test_a_failure_keeps_what_the_folder_knows(tmp_path):
    config = config_of()
    about = {"format": 1, "config": config.to_dict(), "status": "running", "device": "cpu"}
    (tmp_path / "run.json").write_text(json.dumps(about))
    record_failure(tmp_path, config, (), "no")
    failure = {"status": "failed", "error": "no", "diverged_at": None, "disk_full": False}
    assert read_run(tmp_path) == about | failure
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_failure_by_divergence_is_a_field(tmp_path):
    record_failure(tmp_path, config_of(), (), DivergedError(12))
    info = read_run(tmp_path)
    assert (info["diverged_at"], info["error"]) == (
        12,
        "The loss is not finite at step 12. Use a smaller weight or lr.",
    )
    record_failure(tmp_path, config_of(), (), ValueError("no such file"))
    assert read_run(tmp_path)["diverged_at"] is None


def test_runs_that_share_a_cell_with_planned_ones_are_counted(tmp_path):
    planned = [config_of(), config_of(algorithm="cma")]
    for run in planned:
        record_failure(tmp_path / run.hash(), run, (), "no")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "run.json").write_text("[]")
    assert find_clashes(planned, tmp_path) == {}
    assert find_clashes([config_of(steps=4)], tmp_path) == {"steps": 1}
    longer = [config_of(steps=40, precision="bf16"), config_of(algorithm="cma", steps=40, precision="bf16", hparams={})]
    assert find_clashes(longer, tmp_path) == {"precision, steps": 1, "hparams, precision, steps": 1}
    assert find_clashes([config_of(algorithm="coral")], tmp_path) == {}
    assert find_clashes(planned, tmp_path / "nowhere") == {}


def test_runs_are_described_without_torch():
    program = "import sys, momentalign.runs; assert not {'torch', 'pandas', 'pyarrow'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
