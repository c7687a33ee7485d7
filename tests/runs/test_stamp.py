from pathlib import Path

import pytest

from momentalign.runs import data_stamp
from momentalign.training import make_config, run


def test_names_have_none_and_paths_have_that_of_what_lies_there(tmp_path: Path) -> None:
    assert data_stamp("colored-digits") is None
    assert data_stamp(str(tmp_path / "nothing")) is None
    table = tmp_path / "t.csv"
    table.write_text("a")
    before = data_stamp(str(table))
    table.touch()
    assert data_stamp(str(table)) == before
    table.write_text("b")
    assert data_stamp(str(table)) != before


def test_a_folder_is_known_by_the_names_and_sizes_of_its_files(tmp_path: Path) -> None:
    file = tmp_path / "images" / "day" / "cat" / "1.png"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"123")
    folder = str(tmp_path / "images")
    before = data_stamp(folder)
    for name in (".DS_Store", "Thumbs.db", "notes.txt"):
        (tmp_path / "images" / name).write_bytes(b"no image")
    assert data_stamp(folder) == before
    (file.parent / "2.png").write_bytes(b"123")
    more = data_stamp(folder)
    assert more != before
    file.write_bytes(b"1234")
    assert data_stamp(folder) != more
    (file.parent / "3.png").symlink_to(tmp_path / "nowhere")
    assert data_stamp(folder) is not None


def test_a_run_is_not_taken_for_one_on_rows_that_have_changed(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = [f"{k},{k % 2},{'ab'[k % 4 // 2]}" for k in range(40)]
    table.write_text("\n".join(["x,y,domain", *rows]))
    config = make_config(str(table), "erm", test_domains=["b"], steps=2, hparams={"batch_size": 4})
    first = run(config, tmp_path / "run", accelerator="cpu")
    assert run(config, tmp_path / "run", accelerator="cpu") == first
    table.write_text("\n".join(["x,y,domain", *reversed(rows)]))
    with pytest.raises(ValueError, match=r"holds a run on .*t.csv, which has changed since"):
        run(config, tmp_path / "run", accelerator="cpu")
