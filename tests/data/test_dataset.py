from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from momentalign.data import DomainDataset, ImageFiles, Split, Texts, holdout_indices, seed_hash, split_in_out

ROWS = Split(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0]))
DATA = DomainDataset("sites", 2, {"Zurich": {"in": ROWS, "out": ROWS}, "Budapest": {"in": ROWS}})


def test_rows_may_repeat() -> None:
    drawn = ROWS.rows(torch.tensor([2, 2, 0, 1]))
    assert drawn.inputs[:, 0].tolist() == [4.0, 4.0, 0.0, 2.0]
    assert drawn.targets.tolist() == [0, 0, 0, 1]


def test_names_keep_their_order() -> None:
    assert DATA.names == ("Zurich", "Budapest")


def test_repr_counts_rows() -> None:
    assert repr(DATA) == "DomainDataset('sites', 2 classes; Zurich: 3 in + 3 out, Budapest: 3 in)"


def test_unknown_domain_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"sites has no domain 'Basel'\. Domains found: Zurich, Budapest\."):
        DATA.split("Basel", "in")


def test_unknown_split_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"Domain 'Budapest' of sites has no split 'out'\. Splits found: in\."):
        DATA.split("Budapest", "out")


def test_split_rejects_unequal_lengths() -> None:
    with pytest.raises(ValueError, match=r"one entry per row of 'inputs' \(3\), but has 2"):
        Split(torch.zeros(3, 1), torch.zeros(2))


def test_split_rejects_groups_of_another_length() -> None:
    with pytest.raises(ValueError, match=r"'groups' should have one entry per row of 'inputs' \(3\), but has 2"):
        Split(torch.zeros(3, 1), torch.zeros(3), torch.zeros(2))


def test_split_moves_all_its_tensors() -> None:
    moved = Split(torch.zeros(3, 1), torch.zeros(3), torch.zeros(3)).to("meta")
    assert moved.tensor.device.type == moved.targets.device.type == "meta"
    assert moved.groups is not None
    assert moved.groups.device.type == "meta"
    assert ROWS.to("cpu").groups is None


def test_classes_have_names() -> None:
    assert DATA.classes == ("0", "1")
    assert DATA.group_names is None
    named = DomainDataset("birds", 2, {"land": {"in": ROWS}}, ["landbird", "waterbird"], ["a", "b"])
    assert named.classes == ("landbird", "waterbird")
    assert named.group_names == ("a", "b")
    with pytest.raises(ValueError, match=r"'classes' should have 2 names, one a class, but has 1"):
        DomainDataset("birds", 2, {"land": {"in": ROWS}}, ["landbird"])


def test_recipe_follows_the_inputs(tmp_path: Path) -> None:
    targets = torch.tensor([0])
    inputs = {
        "table": torch.zeros(1, 5),
        "mnist": torch.zeros(1, 2, 8, 8),
        "image": ImageFiles([tmp_path / "x.jpg"], tmp_path),
        "text": Texts(["a"]),
    }
    for recipe, rows in inputs.items():
        assert DomainDataset("d", 1, {"a": {"in": Split(rows, targets)}}).training_recipe == recipe
    chosen = DomainDataset("d", 1, {"a": {"in": Split(inputs["mnist"], targets)}}, training_recipe="image")
    assert chosen.training_recipe == "image"
    assert chosen.recipe_is_chosen
    with pytest.raises(ValueError, match=r"should be one of 'mnist', .*, but is 'vision'"):
        DomainDataset("d", 1, {}, training_recipe="vision")


@pytest.mark.parametrize(
    ("shape", "recipe"),
    [((3, 224, 224), "image"), ((3, 65, 40), "image"), ((3, 64, 64), "mnist"), ((1, 224, 224), "mnist")],
)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_large_colour_images_are_no_digits(shape: tuple[int, ...], recipe: str, dtype: torch.dtype) -> None:
    rows = Split(torch.zeros(1, *shape, dtype=dtype), torch.tensor([0]))
    data = DomainDataset("d", 1, {"a": {"in": rows}})
    assert data.training_recipe == recipe
    assert not data.recipe_is_chosen


def test_split_names_and_regression() -> None:
    assert DATA.split_names == ("in", "out")
    assert (DATA.training_split, DATA.validation_split) == ("in", "out")
    published = DomainDataset("d", 2, {"a": {"train": ROWS, "val": ROWS, "test": ROWS}})
    assert (published.training_split, published.validation_split) == ("train", "val")
    assert not DATA.is_regression
    numbers = Split(torch.zeros(3, 1), torch.zeros(3))
    assert DomainDataset("prices", 1, {"a": {"in": numbers}}).is_regression


def test_map_splits_keeps_the_rest() -> None:
    data = DomainDataset("d", 2, {"a": {"in": ROWS}}, ["x", "y"], ["g"], "image", ["A note."])
    other = data.map_splits(lambda rows: rows.rows(torch.tensor([2])))
    assert other.split("a", "in").tensor.tolist() == [[4.0, 5.0]]
    for field in ("name", "num_classes", "classes", "group_names", "training_recipe", "recipe_is_chosen", "notes"):
        assert getattr(other, field) == getattr(data, field)
    assert not DATA.map_splits(lambda rows: rows).recipe_is_chosen


@pytest.mark.parametrize(("args", "seed"), [((0, 0), 894182419), ((0, 1), 1514274641), ((1, 0), 785910682)])
def test_seed_hash_is_domainbeds(args: tuple[int, int], seed: int) -> None:
    assert seed_hash(*args) == seed


def test_seed_hash_tells_names_apart() -> None:
    assert len({seed_hash("data", 0), seed_hash("sampling", 0), seed_hash("data", 1)}) == 3


def test_holdout_is_domainbeds() -> None:
    inside, outside = holdout_indices(10, trial=0, domain=0)
    assert outside.tolist() == [2, 3]
    assert inside.tolist() == [8, 1, 4, 5, 0, 9, 6, 7]


def test_shuffling_an_array_is_shuffling_a_list() -> None:
    # DomainBed shuffles a Python list; holdout_indices an array, which is faster.
    keys = list(range(1000))
    np.random.RandomState(seed_hash(3, 2)).shuffle(keys)
    inside, outside = holdout_indices(1000, trial=3, domain=2)
    assert torch.cat([outside, inside]).tolist() == keys


@pytest.mark.parametrize(("n", "held_out"), [(0, 0), (1, 0), (4, 0), (5, 1), (599, 119)])
def test_holdout_rounds_down(n: int, held_out: int) -> None:
    inside, outside = holdout_indices(n, trial=0, domain=0)
    assert len(outside) == held_out
    assert sorted([*inside.tolist(), *outside.tolist()]) == list(range(n))


def test_holdout_rejects_a_percentage() -> None:
    with pytest.raises(ValueError, match=r"'fraction' should be between 0 and 1, but is 20\."):
        holdout_indices(10, trial=0, domain=0, fraction=20)


@pytest.mark.parametrize("make", [lambda: holdout_indices(10, -1, 0), lambda: split_in_out({"a": ROWS}, -1)])
def test_a_negative_trial(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="'trial' should be at least 0, but is -1"):
        make()


@pytest.mark.parametrize(
    ("copies", "kind", "message"),
    [
        (0, ValueError, "'copies' should be at least 1"),
        (1.5, TypeError, "'copies' should be an integer"),
        (2, ValueError, r"Domain 'a' should have a multiple of 'copies' \(2\) rows, but has 3"),
    ],
)
def test_copies_that_do_not_fit(copies: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        split_in_out({"a": ROWS}, 0, copies=copies)


def test_split_in_out_keeps_rows_together_and_seeds_by_position() -> None:
    rows = Split(torch.arange(50.0).unsqueeze(1), torch.arange(50))
    divided = split_in_out({"first": rows, "second": rows}, trial=0)
    for splits in divided.values():
        assert list(splits) == ["in", "out"]
        for split in splits.values():
            assert torch.equal(split.inputs.squeeze(1).long(), split.targets)
    assert not torch.equal(divided["first"]["out"].targets, divided["second"]["out"].targets)
