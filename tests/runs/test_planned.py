import json
import threading

import pytest

from momentalign.runs import _planned
from momentalign.runs._planned import PLANS, remove_planned, write_planned
from tests.runs.fake_sweep import make_config

RUNS = [("one", make_config(), ("a", "b"))]


def test_a_plan_is_written_and_taken_away(tmp_path):
    path = write_planned(tmp_path, RUNS)
    assert [row["run"] for row in json.loads(path.read_text())["runs"]] == ["one"]
    remove_planned(path, done=False)
    assert path.exists()
    remove_planned(path, done=True)
    assert list(tmp_path.iterdir()) == []
    remove_planned(path, done=True)  # by another sweep with the same runs


def test_the_list_stays_while_another_sweep_is_on_it(tmp_path):
    first = write_planned(tmp_path, RUNS)
    second = write_planned(tmp_path, [("two", make_config(trial=1), ("a", "b"))])
    remove_planned(first, done=True)
    assert second.exists()


@pytest.mark.parametrize("moment", ["before the file", "before the folder is looked at"])
def test_a_folder_that_goes_in_the_very_moment_is_made_again(tmp_path, monkeypatch, moment):
    times, write, is_dir = [], _planned.atomic_write, _planned.Path.is_dir

    def gone_before(path, text):
        if not times:
            path.parent.rmdir()
        times.append(moment)
        write(path, text)

    def gone_since(path):
        if path.name == PLANS and not times:
            times.append(moment)
            path.rmdir()
        return is_dir(path)

    if moment == "before the file":
        monkeypatch.setattr(_planned, "atomic_write", gone_before)
    else:
        (tmp_path / PLANS).mkdir()
        monkeypatch.setattr(_planned.Path, "is_dir", gone_since)
    assert write_planned(tmp_path, RUNS).exists()
    assert times


def test_sweeps_that_come_and_go_never_meet(tmp_path):
    errors = []

    def come_and_go(number):
        try:
            for trial in range(60):
                path = write_planned(tmp_path, [(f"{number}-{trial}", make_config(trial=trial), ("a", "b"))])
                remove_planned(path, done=True)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=come_and_go, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_an_error(tmp_path):
    (tmp_path / PLANS).write_text("")
    with pytest.raises(FileExistsError):
        write_planned(tmp_path, RUNS)
