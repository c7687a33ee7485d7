import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from momentalign.runs import RunFolder, is_busy, read_records, read_run, read_runs, write_json
from tests.training.problems import small_config, three_domains

pytestmark = pytest.mark.slow

RECORD = {"step": 0, "domain": "a", "split": "in", "metric": "accuracy", "value": 0.5}


def begin(folder: RunFolder, records_bytes: int = 0) -> None:
    data = three_domains()
    folder.begin(domains=data.names, classes=data.classes, device="cpu", records_bytes=records_bytes)


def opened(path: Path, records_bytes: int = 0) -> RunFolder:
    folder = RunFolder(path, small_config(three_domains()))
    begin(folder, records_bytes)
    return folder


def test_run_json_says_what_is_run(tmp_path: Path) -> None:
    folder = opened(tmp_path / "deep" / "run")
    about = read_run(folder.path)
    config = small_config(three_domains())
    assert about["hash"] == config.hash()
    assert about["config"] == config.to_dict()
    assert (about["domains"], about["classes"], about["num_classes"]) == (["a", "b", "c"], ["dark", "bright"], 2)
    assert (about["status"], about["error"], about["finished"], about["device"]) == ("running", None, None, "cpu")
    assert about["versions"]["torch"]
    folder.finish()
    folder.close()
    assert read_run(folder.path)["status"] == "finished"
    assert read_run(folder.path)["finished"] >= about["started"]
    assert sorted(path.name for path in folder.path.iterdir()) == ["records.jsonl", "run.json"]


def test_records_are_cut_back_to_the_checkpoint(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run")
    length = folder.append([RECORD, {**RECORD, "value": float("nan")}])
    folder.append([{**RECORD, "step": 4}])
    folder.close()
    with (tmp_path / "run" / "records.jsonl").open("a") as file:
        file.write('{"step": 8, "dom')
    assert [record["step"] for record in read_records(tmp_path / "run")] == [0, 0, 4]
    again = opened(tmp_path / "run", length)
    again.append([{**RECORD, "step": 5}])
    found = read_records(tmp_path / "run")
    assert [record["step"] for record in found] == [0, 0, 5]
    assert found[1]["value"] is None
    again.close()


def test_another_configuration_is_refused(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run")
    folder.append([RECORD])
    folder.close()
    with pytest.raises(ValueError, match=r"another configuration: trial was 0 and is 1; lr was 0.001 and is 0.1. Name"):
        RunFolder(tmp_path / "run", small_config(three_domains(), trial=1, hparams={"lr": 0.1}))


def test_pauses_are_no_training_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 0.0, 3.0, 100.0, 100.0, 104.0])  # begun, written, interrupted; resumed, written, finished
    monkeypatch.setattr("momentalign.runs._folder.time", SimpleNamespace(monotonic=lambda: next(times)))
    folder = opened(tmp_path)
    folder.append([RECORD])
    folder.close()
    assert read_run(tmp_path)["status"] == "running"
    again = opened(tmp_path)
    again.finish()
    again.close()
    assert read_runs(tmp_path).seconds().tolist() == [7.0]


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    config = small_config(three_domains())
    with pytest.raises(ValueError, match=r"should be the folder of a run, but holds other files"):
        RunFolder(tmp_path, config)
    with pytest.raises(ValueError, match=r"should name a folder, but .* is a file"):
        RunFolder(tmp_path / "thesis.tex", config)


def test_run_json_of_the_wrong_kind(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"run.json does not exist"):
        read_run(tmp_path)
    with pytest.raises(ValueError, match=r"nowhere should be the folder of a run"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ValueError, match=r"is damaged"):
        read_run(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(ValueError, match=r"has format 9"):
        read_run(tmp_path)


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    opened(tmp_path / "run").close()
    program = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    words = [sys.executable, "-c", program, str(tmp_path / "run" / ".lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ValueError, match=r"Another process trains in"):
            opened(tmp_path / "run")
        other.communicate("\n")
    opened(tmp_path / "run").close()


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "a.json", {"old": True})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match=r"No space"):
        write_json(tmp_path / "a.json", {"new": True})
    assert os.listdir(tmp_path) == ["a.json"]  # noqa: PTH208
    assert json.loads((tmp_path / "a.json").read_text())["old"]


def test_a_run_that_did_not_begin_leaves_nothing(tmp_path: Path) -> None:
    config = small_config(three_domains())
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "new"):
        folder = RunFolder(path, config)
        folder.fail("no such encoder")
        folder.close()
        assert not list(path.glob("*"))
        again = opened(path)
        again.fail("loss is nan")
        again.close()
        about = read_run(path)
        assert (about["status"], about["error"], about["hash"]) == ("failed", "loss is nan", config.hash())


def test_a_failure_elsewhere_does_not_touch_a_run_under_way(tmp_path: Path) -> None:
    running = opened(tmp_path / "run")
    other = RunFolder(tmp_path / "run", running.config)
    other.fail("out of memory")
    assert read_run(tmp_path / "run")["status"] == "running"
    running.close()


def test_a_full_disk_at_the_very_start_can_be_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    folder = RunFolder(tmp_path / "run", small_config(three_domains()))
    with monkeypatch.context() as patch:
        patch.setattr("momentalign.runs._folder.write_json", full)
        with pytest.raises(OSError, match=r"No space"):
            begin(folder)
        folder.fail("No space left on device")
    folder.close()
    (tmp_path / "run" / ".run.json.0123456789abcdef.tmp").write_text("{")
    opened(tmp_path / "run").close()
    assert read_run(tmp_path / "run")["status"] == "running"


def test_a_run_that_ended_before_its_first_record_makes_room_for_another(tmp_path: Path) -> None:
    data = three_domains()
    folder = RunFolder(tmp_path, small_config(data))
    begin(folder)
    program = (
        "import sys; from pathlib import Path; from momentalign.runs import RunFolder\n"
        "from tests.training.problems import small_config, three_domains\n"
        "RunFolder(Path(sys.argv[1]), small_config(three_domains(), hparams={'batch_size': 2}))"
    )
    other_process = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True)
    assert "holds a run of another configuration" in other_process.stderr  # this one may be about to write
    folder.fail("too large")
    folder.close()
    other = RunFolder(tmp_path, small_config(data, hparams={"batch_size": 2}))
    begin(other)
    other.append([{"step": 0, "domain": None, "split": None, "metric": "loss", "value": 1.0}])
    other.close()
    with pytest.raises(ValueError, match="holds a run of another configuration: batch_size was 2 and is"):
        RunFolder(tmp_path, small_config(data))


def test_a_run_on_other_data_of_the_same_name_is_refused(tmp_path: Path) -> None:
    data = three_domains()
    folder = RunFolder(tmp_path, small_config(data), "1234")
    begin(folder)
    folder.close()
    for stamp in ("1234", None):  # None where data came from Python
        assert RunFolder(tmp_path, small_config(data), stamp).info["data"] == "1234"
    with pytest.raises(ValueError, match=r"which has changed since. Name another folder, or remove this one."):
        RunFolder(tmp_path, small_config(data), "5678")


def test_looking_lets_go_of_no_lock(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run")
    assert is_busy(tmp_path / "run")
    with pytest.raises(ValueError, match="holds a run of another configuration"):
        RunFolder(tmp_path / "run", small_config(three_domains(), trial=1))
    program = "import sys; from pathlib import Path; from momentalign.runs import is_busy\n"
    program += "print(is_busy(Path(sys.argv[1])))"
    words = [sys.executable, "-c", program, tmp_path / "run"]
    assert subprocess.run(words, capture_output=True, text=True).stdout == "True\n"
    folder.close()
    assert not is_busy(tmp_path / "run")


def test_reading_records_and_a_second_try_let_go_of_no_lock(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run")
    folder.append([RECORD])
    assert read_records(tmp_path / "run") == [RECORD]
    with pytest.raises(ValueError, match="This process already trains in"):
        opened(tmp_path / "run")
    program = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'a'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    words = [sys.executable, "-c", program, tmp_path / "run" / ".lock"]
    assert "BlockingIOError" in subprocess.run(words, capture_output=True, text=True).stderr
    folder.close()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["records.jsonl", "run.json"]


def test_what_a_kill_left_is_removed_under_the_lock(tmp_path: Path) -> None:
    opened(tmp_path / "run").close()
    (tmp_path / "run" / ".run.json.0123456789abcdef.tmp").write_text("{")
    (tmp_path / "run" / ".checkpoint.safetensors.0123456789abcdef.tmp").touch()
    (tmp_path / "run" / ".lock").touch()
    (tmp_path / "run" / ".notes.tmp").touch()  # somebody else's
    opened(tmp_path / "run").close()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [".notes.tmp", "records.jsonl", "run.json"]


def test_a_run_json_without_its_hash_is_another_run(tmp_path: Path) -> None:
    folder = opened(tmp_path / "run")
    folder.append([RECORD])
    folder.close()
    info = read_run(folder.path)
    write_json(folder.path / "run.json", {name: value for name, value in info.items() if name != "hash"})
    with pytest.raises(ValueError, match="holds a run of another configuration: written by another version"):
        RunFolder(folder.path, folder.config)
