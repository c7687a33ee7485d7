"""Sweeps for the tests of the page: invented numbers in real folders."""

from pathlib import Path

from momentalign.selection import Sweep, read_runs
from tests.runs.fake_sweep import make_config, record, write_fake_probes, write_fake_sweep, write_run

HOSTILE = (
    "<script>alert(1)</script>",
    "../x</script><img src=x onerror=alert(2)>",
    "'; DROP \"&amp;{{7*7}}\x1b[31m\u202e",
)


def mixed(folder: Path) -> Sweep:
    """Fine-tuning with pairs, some of it failed and unfinished, and probes of a set with groups."""
    write_fake_sweep(folder, algorithms=("erm", "coral", "cma"), pairs=True, failed=1, unfinished=2, torn=True)
    write_fake_probes(folder, hparams=3, trials=2, measures=True)
    return read_runs(folder)


def hostile(folder: Path) -> Sweep:
    """Names that would like to be more than text, wherever a name can be."""
    names = {"dataset": "<b>data</b>/../..", "domains": HOSTILE, "classes": ("<i>", "</script>")}
    algorithms = ("erm", "my.module:<svg onload=alert(3)>")
    write_fake_sweep(folder, **names, algorithms=algorithms, failed=1, encoder="<img src=y onerror=alert(4)>")
    return read_runs(folder)


def by_hand(folder: Path, device: str = "NVIDIA H200") -> Sweep:
    """Two trials of one method, domains a and b, numbers that can be checked by eye.

    Tested on a: 0.5, then 0.7 (trial 0) and 0.9 (trial 1); b's held-out rows 0.8 throughout. Tested on b: 0.6 and 0.9.
    """
    final = {("a", 0): 0.7, ("a", 1): 0.9, ("b", 0): 0.6, ("b", 1): 0.6}
    for (test, trial), value in final.items():
        other = "b" if test == "a" else "a"
        config = make_config(test_domains=[test], trial=trial, steps=10)
        lines = []
        for step in (0, 10):
            reached = 0.5 if step == 0 else value
            lines += [record(step, "accuracy", reached, test, split) for split in ("in", "out")]
            lines += [record(step, "accuracy", 0.8 if other == "b" else 0.9, other, split) for split in ("in", "out")]
            lines += [
                record(step, "hessian", 4.0 if step == 0 else 1.0 + trial),
                record(step, "moment_gap_1", 3.0 if test == "a" else 1.0),
                record(step, "moment_gap_2", 30.0 if test == "a" else 10.0),
                record(step, "batch_moment_gap_1", 7.0 if test == "a" else 5.0),
                record(step, "step_seconds", 5.0 if step == 0 else 0.25),
                record(step, "memory_gib", 2.0 if step == 0 else 1.5),
            ]
        write_run(folder, config, lines, domains=("a", "b"), device=device)
    return read_runs(folder)
