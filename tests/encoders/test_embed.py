"""Files of features: what is in them, and that they can be interrupted."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from momentalign.data import ColoredDigits, DomainDataset, ImageFiles, Split, Texts, load_dataset
from momentalign.encoders import MNIST_CNN, Embedding, Encoder, build_encoder, embed, read_plan
from momentalign.encoders import _embed as module
from momentalign.tables import METADATA_KEY, read_table
from tests.encoders.models import image_dataset, save_model, text_dataset, write_images

pytestmark = pytest.mark.slow


def expected(encoder: Encoder, rows: Split) -> np.ndarray:
    opened = encoder.preprocessing.open(rows.inputs)
    raw = opened if isinstance(opened, torch.Tensor) else torch.stack([opened[k] for k in range(len(rows))])
    with torch.no_grad():
        return encoder.eval()(encoder.preprocessing.to_inputs(raw)).numpy()


@pytest.fixture
def images(tmp_path: Path) -> tuple[DomainDataset, Encoder]:
    save_model("resnet", tmp_path / "model")
    data = image_dataset(tmp_path / "images", per_class=5)
    return data, build_encoder(str(tmp_path / "model"), data)


def test_images(images: tuple[DomainDataset, Encoder], tmp_path: Path) -> None:
    data, encoder = images
    out = embed(data, encoder, tmp_path / "features.parquet", batch_size=3)
    table = read_table(out)
    assert table.domains.tolist() == ["day"] * 10 + ["night"] * 10
    assert table.target.tolist() == (["cat"] * 5 + ["dog"] * 5) * 2
    assert list(table.features.columns) == [f"x{k}" for k in range(16)]
    assert table.splits is None
    assert table.groups is None
    assert table.names["target"] == ("cat", "dog")
    wanted = np.concatenate([expected(encoder, data.split(name, "in")) for name in data.names])
    np.testing.assert_allclose(table.features.to_numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert list(pd.read_parquet(out)["file"])[:2] == ["day/cat/0.png", "day/cat/1.png"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [out.name, "images", "model"]


def test_texts_with_groups_and_published_splits(tmp_path: Path) -> None:
    save_model("bert", tmp_path / "model")
    data = text_dataset()
    encoder = build_encoder(str(tmp_path / "model"), data)
    table = read_table(embed(data, encoder, tmp_path / "features.parquet", batch_size=4))
    assert table.splits is not None
    assert table.groups is not None
    assert table.splits.tolist() == (["train"] * 6 + ["test"] * 2) * 2
    assert table.groups[:3].tolist() == ["x, a", "y, a", "z, a"]
    assert table.names["group"] == data.group_names
    parts = [expected(encoder, rows) for splits in data.domains.values() for rows in splits.values()]
    np.testing.assert_allclose(table.features.to_numpy(), np.concatenate(parts), rtol=1e-4, atol=1e-5)
    frame = pd.read_parquet(tmp_path / "features.parquet")
    assert frame["file"].iloc[8] == "1-0"
    assert list(frame.columns) == [*(f"x{k}" for k in range(16)), "y", "domain", "split", "group", "file"]
    assert frame["x0"].dtype == np.float32
    assert frame["y"].dtype == frame["group"].dtype == np.int64


def test_every_trial_gives_the_same_file(tmp_path: Path) -> None:
    save_model("resnet", tmp_path / "model")
    write_images(tmp_path / "animals", per_class=5)
    frames = []
    for trial in (0, 1):
        data = load_dataset(tmp_path / "animals", trial=trial)
        encoder = build_encoder(str(tmp_path / "model"), data)
        frames.append(pd.read_parquet(embed(data, encoder, tmp_path / f"{trial}.parquet")))
    pd.testing.assert_frame_equal(frames[0], frames[1], rtol=1e-4, atol=1e-5)
    assert "split" not in frames[0].columns
    assert frames[0]["file"].tolist() == sorted(frames[0]["file"])
    kept = pd.read_parquet(embed(data, encoder, tmp_path / "split.parquet", splits=True))
    held_out = {name for rows in data.domains.values() for name in names(rows["out"])}
    assert set(kept.loc[kept["split"] == "out", "file"]) == held_out
    assert len(held_out) == 4


def names(rows: Split) -> list[str]:
    assert isinstance(rows.inputs, ImageFiles | Texts)
    return rows.inputs.names


def test_tensors_have_no_file_names(tmp_path: Path) -> None:
    data = ColoredDigits(draws=1)
    encoder = MNIST_CNN(2, 8)
    table = read_table(embed(data, encoder, tmp_path / "features.parquet", batch_size=500))
    assert len(table.target) == 1797
    assert "file" not in pd.read_parquet(tmp_path / "features.parquet")
    first = expected(encoder, data.split("+90%", "in"))
    np.testing.assert_allclose(table.features.to_numpy()[: len(first)], first, rtol=1e-4, atol=1e-5)


class KilledError(Exception):
    pass


def test_goes_on_where_it_was_killed(
    images: tuple[DomainDataset, Encoder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, encoder = images
    whole = read_table(embed(data, encoder, tmp_path / "whole.parquet", batch_size=4)).features.to_numpy()
    monkeypatch.setattr(module, "_SAVE_SECONDS", 0.0)
    out = tmp_path / "features.parquet"

    def kill_at(row: int):
        def progress(done: int, total: int) -> None:
            assert total == 20
            if done >= row:
                raise KilledError

        return progress

    for row in (7, 15):
        with pytest.raises(KilledError):
            embed(data, encoder, out, batch_size=4, progress=kill_at(row))
        assert not out.exists()
    parts = tmp_path / "features.parquet.parts"
    (last,) = parts.glob("*/000000000014-000000000018.parquet")
    # A kill in the middle of writing: the last file is torn, another does not follow what is whole.
    last.rename(last.with_name(f".{last.name}.0123456789abcdef.tmp"))
    shutil.copyfile(
        last.with_name("000000000010-000000000014.parquet"), last.with_name("000000000018-000000000020.parquet")
    )
    seen: list[int] = []
    embed(data, encoder, out, batch_size=4, progress=lambda done, total: seen.append(done))
    assert seen == [14, 18, 20]
    np.testing.assert_allclose(read_table(out).features.to_numpy(), whole, rtol=1e-4, atol=1e-5)
    assert not parts.exists()


def test_a_finished_file_is_left_as_it_is(images: tuple[DomainDataset, Encoder], tmp_path: Path) -> None:
    data, encoder = images
    out = embed(data, encoder, tmp_path / "features.parquet")
    written = out.stat().st_mtime_ns
    encoder.source = "the same by another name"
    work = Embedding(data, encoder, out)
    assert work.done == work.rows == 20
    (tmp_path / "features.parquet.parts").mkdir()  # a kill left it
    work.run()
    assert out.stat().st_mtime_ns == written
    assert not (tmp_path / "features.parquet.parts").exists()


def test_other_rows_or_weights_are_not_mixed(images: tuple[DomainDataset, Encoder], tmp_path: Path) -> None:
    data, encoder = images
    out = tmp_path / "features.parquet"

    def stop(done: int, total: int) -> None:
        if done:
            raise KilledError

    with pytest.raises(KilledError):
        embed(data, encoder, out, batch_size=4, progress=stop)
    fewer = DomainDataset("animals", 2, {"day": data.domains["day"]}, data.classes)
    assert [Embedding(rows, encoder, out).done for rows in (data, fewer)] == [4, 0]
    assert len(read_table(embed(fewer, encoder, out)).target) == 10
    with pytest.raises(ValueError, match=r"features\.parquet holds .* another data set \(also called 'animals'"):
        embed(data, encoder, out)
    with torch.no_grad():
        next(encoder.parameters()).add_(1)
    with pytest.raises(ValueError, match=r"features\.parquet holds features of another encoder"):
        embed(fewer, encoder, out)


def test_a_file_of_somebody_else_is_not_overwritten(images: tuple[DomainDataset, Encoder], tmp_path: Path) -> None:
    out = tmp_path / "mine.parquet"
    out.write_bytes(b"precious")
    with pytest.raises(ValueError, match=r"mine\.parquet holds no features .* Remove it"):
        embed(*images, out)
    assert out.read_bytes() == b"precious"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12 and 3.13, where threads run
def test_a_bad_image_is_named_and_the_rest_is_kept(images: tuple[DomainDataset, Encoder], tmp_path: Path) -> None:
    data, encoder = images
    bad = tmp_path / "images" / "night" / "cat" / "3.png"
    good = bad.read_bytes()
    bad.write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"night/cat/3.png should be an image") as caught:
        embed(data, encoder, tmp_path / "features.parquet", batch_size=2, workers=1)
    assert "\n" not in str(caught.value)
    bad.write_bytes(good)
    work = Embedding(data, encoder, tmp_path / "features.parquet")
    assert work.done == 12
    assert len(read_table(work.run()).target) == 20


def test_a_full_disk_loses_nothing(
    images: tuple[DomainDataset, Encoder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, encoder = images
    monkeypatch.setattr(module, "_SAVE_SECONDS", 0.0)
    write, saved = pq.write_table, []

    def full(table, path, **settings) -> None:
        if len(saved) == 2:
            path.write_bytes(b"as much as fits")
            raise OSError("128 requested and 15 written")
        saved.append(len(table))
        write(table, path, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
        with pytest.raises(OSError, match=r"000008-\d+\.parquet cannot be written: 128 requested .* again to resume"):
            embed(data, encoder, tmp_path / "features.parquet", batch_size=4)
    assert len(list((tmp_path / "features.parquet.parts").glob("*/*"))) == 2
    work = Embedding(data, encoder, tmp_path / "features.parquet", batch_size=4)
    assert work.done == 8
    assert len(read_table(work.run()).target) == 20


def test_looking_writes_nothing(images: tuple[DomainDataset, Encoder], tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    Embedding(*images, tmp_path / "features.parquet")
    assert sorted(tmp_path.rglob("*")) == before


def test_metadata_says_what_the_features_are(images: tuple[DomainDataset, Encoder], tmp_path: Path) -> None:
    import pyarrow.parquet

    data, encoder = images
    out = embed(data, encoder, tmp_path / "features.parquet")
    about = json.loads(pyarrow.parquet.read_schema(out).metadata[b"momentalign"])
    assert about["plan"]["encoder"]["name"] == encoder.source
    assert about["plan"]["data set"]["name"] == "animals"
    assert (about["classes"], about["domains"]) == (["cat", "dog"], ["day", "night"])


def test_bad_arguments(images: tuple[DomainDataset, Encoder], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"should end in .parquet, but is .*features.csv"):
        embed(*images, tmp_path / "features.csv")
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        embed(*images, tmp_path / "folder.parquet")
    with pytest.raises(ValueError, match="'batch_size' should be at least 1"):
        embed(*images, tmp_path / "features.parquet", batch_size=0)
    empty = Split(torch.zeros(0, 2, 8, 8), torch.zeros(0, dtype=torch.long))
    with pytest.raises(ValueError, match="nothing should have rows, but has none"):
        embed(DomainDataset("nothing", 2, {"a": {"in": empty}}), MNIST_CNN(2, 8), tmp_path / "features.parquet")


@pytest.mark.parametrize("stored", ["nothing", "[1]", '{"plan": 3}', '{"plan": {"a": NaN}}'])
def test_a_file_with_other_metadata_has_no_plan(stored, tmp_path):
    table = pa.table({"x": [1.0]}).replace_schema_metadata({METADATA_KEY: stored})
    pq.write_table(table, tmp_path / "t.parquet")
    assert read_plan(tmp_path / "t.parquet") == {}
    assert read_plan(tmp_path / "t.csv") == {}
