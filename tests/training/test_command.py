"""The commands as people type them; most in this process, since a fresh one takes seconds to import torch."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

import momentalign.training._loop as loop
from momentalign.cli import app, main
from momentalign.runs import read_records, read_run
from momentalign.training import find_position
from tests.processes import listen
from tests.training.problems import assert_same_weights, numbers

pytestmark = pytest.mark.slow

PROGRAM = str(Path(sys.executable).with_name("momentalign"))
SHORT = ("--test-domain=-90%", "--steps", "6", "--record-every", "2", "--device", "cpu")


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False, env={"COLUMNS": "200"})


def error_of(*words: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "argv", ["momentalign", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    error = capsys.readouterr().err.strip()
    assert len(error.splitlines()) == 1
    assert error.startswith("Error: ")
    return error


def test_train_says_cost_accuracy_place_and_next_command(tmp_path: Path) -> None:
    out = tmp_path / "one"
    words = ("train", "colored-digits", "--algorithm", "cma", *SHORT, "--set", "gradient_weight=7", "--out", out)
    done = invoke(*words)
    assert done.exit_code == 0
    for part in (
        "cma on colored-digits, without -90%: 6 steps, a record every 2.",
        "gradient_weight 7.0",
        "parameters are trained; a checkpoint takes about",
        "-90% *",
        f"Saved records and weights to {out}. Next: momentalign evaluate {out} colored-digits",
    ):
        assert part in done.output
    about = read_run(out)
    assert about["status"] == "finished"
    assert about["config"]["hparams"]["gradient_weight"] == 7
    assert sorted({record["step"] for record in read_records(out)}) == [0, 2, 4, 5]
    assert invoke(*words).exit_code == 0  # a finished run is shown again


def test_evaluate_prints_and_writes(tmp_path: Path) -> None:
    invoke("train", "colored-digits", *SHORT, "--out", tmp_path / "one")
    done = invoke("evaluate", tmp_path / "one", "colored-digits", "--device", "cpu", "-o", tmp_path / "scores.csv")
    assert done.exit_code == 0, done.output
    assert "+80%" in done.output
    assert "-90% *" in done.output
    assert "momentalign.load(" in done.output
    lines = (tmp_path / "scores.csv").read_text().splitlines()
    assert lines[0] == "domain,split,group,metric,rows,value"
    recorded = {
        (r["domain"], r["split"]): r["value"]
        for r in read_records(tmp_path / "one")
        if r["step"] == 5 and r["metric"] == "accuracy"
    }
    first = lines[1].split(",")
    assert float(first[-1]) == pytest.approx(recorded["+90%", "in"])


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = invoke("train", "colored-digits", "--dry-run", "--device", "cpu")
    assert done.exit_code == 0
    assert "erm on colored-digits: 800 steps, a record every 40." in done.output
    assert "Nothing was run." in done.output
    assert not list(tmp_path.iterdir())


def test_the_folder_has_the_hash_for_a_name_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("train", "colored-digits", *SHORT).exit_code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name == read_run(folder)["hash"]


def test_small_domains_are_noted_not_refused(tmp_path: Path) -> None:
    done = invoke("train", "colored-digits", *SHORT, "--set", "batch_size=9999", "--out", tmp_path / "one")
    assert done.exit_code == 0
    assert "Note: A batch of 9999 is larger than the rows to train on of +90% (9600), +80% (9600)" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "colored-digit"], "Did you mean 'colored-digits'?"),
        (["train", "colored-digits", "--test-domain", "-80%"], "'--test-domain' should be one of '+90%', '+80%'"),
        (["train", "colored-digits", "--algorithm", "cmaa"], "Did you mean 'cma'?"),
        (["train", "colored-digits", "--algorithm", "nowhere:Thing"], "nowhere"),
        (["train", "colored-digits", "--encoder", "mnist-cn"], "Did you mean 'mnist-cnn'?"),
        (
            ["train", "colored-digits", "--algorithm", "cma", "--set", "gradient_wieght=1"],
            "Did you mean 'gradient_weight'?",
        ),
        (["train", "colored-digits", "--set", "lr"], "'--set' should look like NAME=VALUE, but is 'lr'."),
        (["train", "colored-digits", "--set", "lr=fast"], "'lr' should be a number"),
        (["train", "colored-digits", "--steps", "0"], "'--steps' should be at least 1"),
        (["train", "colored-digits", "--seed", "-1"], "'--seed' should be at least 0, but is -1."),
        (["train", "colored-digits", "--checkpoint-every", "0"], "'--checkpoint-every' should be at least 1"),
        (["train", "colored-digits", "--device", "tpu"], "'--device' should be one of 'auto', 'cpu', 'cuda'"),
        (["train", "colored-digits", "--devices", "0"], "'--devices' should be at least 1"),
        (["train", "colored-digits", "--devices", "3", "--device", "cpu"], "multiple of the number of devices (3)"),
        (["train", "colored-digits", "--average", "swa"], "Did you mean 'swad'?"),
        (["train", "colored-digits", "--algorithm", "cma", "--preset", "save"], "Did you mean 'safe'?"),
        (["train", "colored-digits", "--keep", "oracle"], "'--keep' should be one of 'last', 'training-domain'"),
        (["train", "nowhere/at/all"], "nowhere/at/all does not exist"),
        (["evaluate", "nowhere", "colored-digits"], "nowhere should be the folder of a run"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in error_of(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert not list(tmp_path.iterdir())


def test_folders_of_the_wrong_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "flat" / "cats").mkdir(parents=True)
    (tmp_path / "flat" / "cats" / "a.png").write_bytes(b"x")
    for name in ("empty", "flat"):
        error = error_of("train", tmp_path / name, capsys=capsys, monkeypatch=monkeypatch)
        assert "domain" in error
        assert "class" in error


def test_a_checkpoint_of_another_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke("train", "colored-digits", *SHORT, "--out", tmp_path / "one")
    words = ("train", "colored-digits", *SHORT, "--seed", 1, "--out", tmp_path / "one")
    error = error_of(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert "another configuration: trial was 0 and is 1. Name another folder" in error


def test_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = loop.save_checkpoint

    def full(folder: Path, *rest: object) -> None:
        if find_position(folder).step > 0:
            raise OSError(28, "No space left on device")
        real(folder, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "save_checkpoint", full)
    words = ("train", "colored-digits", *SHORT, "--checkpoint-every", 1, "--out", tmp_path / "one")
    error = error_of(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert "is full. Free some space and run the same command again: it resumes at step 1." in error
    monkeypatch.setattr(loop, "save_checkpoint", real)
    again = invoke(*words)
    assert again.exit_code == 0
    assert "Resuming at step 1 of 6." in again.output


def test_an_interrupted_process_resumes_bit_identically(tmp_path: Path) -> None:
    words = [
        "train",
        "colored-digits",
        "--test-domain=-90%",
        "--steps",
        "5000",
        "--record-every",
        "5",
        "--checkpoint-every",
        "1",
        "--average",
        "none",
        "--device",
        "cpu",
    ]
    # It resumes in this process: the same number of threads, since sums are rounded by their order.
    threads = str(torch.get_num_threads())
    environment = os.environ | {"COLUMNS": "200", "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    process = subprocess.Popen(
        [PROGRAM, *words, "--out", str(tmp_path / "cut")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=listen,
    )
    while process.poll() is None and find_position(tmp_path / "cut").step < 11:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    step = find_position(tmp_path / "cut").step
    assert f"Interrupted. Run the same command again to resume from step {step} of 5000." in output
    assert read_run(tmp_path / "cut")["status"] == "running"
    # To the end of a shorter run, the same one but for its length.
    about = read_run(tmp_path / "cut")
    for name, out in (("whole", tmp_path / "whole"), ("cut", tmp_path / "cut")):
        if name == "cut":
            config = about["config"] | {"steps": step + 3}
            about |= {"config": config, "hash": read_run(tmp_path / "whole")["hash"]}
            (out / "run.json").write_text(json.dumps(about))
        assert invoke(*words[:4], str(step + 3), *words[5:], "--out", out).exit_code == 0
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    assert_same_weights(tmp_path / "cut", tmp_path / "whole")


def test_weights_that_are_gone_are_missed(tmp_path: Path) -> None:
    words = ("train", "colored-digits", *SHORT, "--out", tmp_path / "one")
    assert invoke(*words).exit_code == 0
    (tmp_path / "one" / "model.safetensors").unlink()
    again = invoke(*words)
    assert again.exit_code == 0
    assert "but no weights. Remove it and run the same command again to save them." in again.output.replace("\n", " ")


def test_damaged_weights_are_said_and_the_next_command_has_what_it_needs(tmp_path: Path) -> None:
    words = ("train", "colored-digits", *SHORT, "--out", tmp_path / "one")
    first = invoke(*words)
    assert f"evaluate {tmp_path / 'one'} colored-digits" in first.output
    weights = tmp_path / "one" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"model.safetensors is damaged .* Remove .* and run the same command again."):
        invoke(*words)


def test_evaluate_says_that_a_run_is_not_finished(tmp_path: Path) -> None:
    assert invoke("train", "colored-digits", *SHORT, "--out", tmp_path / "one").exit_code == 0
    about = read_run(tmp_path / "one")
    (tmp_path / "one" / "run.json").write_text(json.dumps(about | {"status": "running"}))
    found = invoke("evaluate", tmp_path / "one", "colored-digits", "--device", "cpu")
    assert found.exit_code == 0, found.output
    assert "The run is not finished: these are its weights after" in found.output.replace("\n", " ")


def test_the_preset_and_its_reason_are_printed(tmp_path: Path) -> None:
    words = ("train", "colored-digits", "--algorithm", "cma", *SHORT, "--preset", "safe", "--out", tmp_path / "one")
    done = invoke(*words)
    assert "scaling relative" in done.output
    assert "Preset safe for cma: relative scaling; its weights" in done.output
    assert read_run(tmp_path / "one")["config"]["preset"] == "safe"


def test_a_run_that_diverges_says_so(tmp_path: Path) -> None:
    done = invoke("train", "colored-digits", *SHORT, "--set", "lr=1e30", "--out", tmp_path / "one")
    assert done.exit_code == 0
    assert "its loss was not finite by step 2" in done.output


def test_averaged_weights_of_the_best_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("train", "colored-digits", *SHORT, "--average", "ema", "--out", tmp_path / "one")
    done = invoke(*words, "--keep", "extrapolated", "--reach", "3")
    assert done.exit_code == 0, done.output
    saved = read_run(tmp_path / "one")["weights"]
    said = (
        f"The saved weights are those of step {saved['step']} of 6, averaged (ema): the best record by extrapolated "
        f"selection with reach 3, score {100 * saved['score']:.1f}."
    )
    assert said in done.output
    assert said in invoke("evaluate", tmp_path / "one", "colored-digits", "--device", "cpu").output
    error = error_of(*words, capsys=capsys, monkeypatch=monkeypatch)
    assert "another configuration: keep was 'extrapolated'" in error
