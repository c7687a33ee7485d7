"""From the command line to a model in Python, the first command in a process of its own."""

import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

import momentalign
from momentalign.cli import app
from momentalign.data import load_dataset
from momentalign.runs import read_records, read_run

pytestmark = pytest.mark.slow

PROGRAM = str(Path(sys.executable).with_name("momentalign"))


def command(*words: object) -> str:
    environment = os.environ | {"COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_train_evaluate_load(tmp_path: Path) -> None:
    out = tmp_path / "one"
    options = ("--algorithm", "cma", "--test-domain=-90%", "--steps", 6, "--record-every", 3, "--device", "cpu")
    said = command("train", "colored-digits", *options, "--out", out)
    assert f"momentalign evaluate {out} colored-digits" in said
    assert "-90% *" in CliRunner().invoke(app, ["evaluate", str(out), "colored-digits"], env={"COLUMNS": "200"}).output
    rows = load_dataset("colored-digits").split("-90%", "in")
    named = momentalign.load(out).predict(rows.tensor)
    truth = [load_dataset("colored-digits").classes[k] for k in rows.targets.tolist()]
    accuracy = sum(a == b for a, b in zip(named, truth, strict=True)) / len(rows)
    last = {
        (r["domain"], r["split"]): r["value"] for r in read_records(out) if r["step"] == 5 and r["metric"] == "accuracy"
    }
    assert last["-90%", "in"] == pytest.approx(accuracy)


def test_pacs_with_the_pretrained_mobilenet(tmp_path: Path) -> None:
    root = Path(os.environ.get("MOMENTALIGN_DATA", tmp_path))
    archive, encoder = root / "pacs" / "PACS_112px_q85.tar", root / "encoders" / "mobilenet_v2"
    if not (archive.exists() and encoder.exists()):
        pytest.skip("needs PACS and MobileNetV2 in $MOMENTALIGN_DATA")
    kept: Counter[str] = Counter()
    with tarfile.open(archive) as tar:
        for member in tar:
            folder = str(Path(member.name).parent)
            if member.isfile() and kept[folder] < 2:
                kept[folder] += 1
                tar.extract(member, tmp_path / "pacs", filter="data")
    assert len(kept) == 28
    out = tmp_path / "run"
    options = ("--test-domain", "sketch", "--encoder", f"{encoder}?size=112", "--steps", 2, "--set", "batch_size=4")
    words = ["train", tmp_path / "pacs", "--algorithm", "cma", *options, "--workers", 1, "--out", out]
    said = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert said.exit_code == 0, said.output
    assert "sketch *" in said.output
    assert read_run(out)["classes"] == ["dog", "elephant", "giraffe", "guitar", "horse", "house", "person"]
    assert {r["domain"] for r in read_records(out)} == {"art_painting", "cartoon", "photo", "sketch", None}
