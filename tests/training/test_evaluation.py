from pathlib import Path

import pytest
import torch

from momentalign.data import DomainDataset, Split
from momentalign.training import Score, evaluate, load_run, run
from tests.training.problems import grouped, images, small_config, three_domains


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    data = three_domains()
    run(small_config(data), folder, data=data)
    return folder


def test_every_split_every_domain_and_all_rows(trained: Path) -> None:
    data = three_domains()
    seen: list[tuple[int, int]] = []
    scores = evaluate(trained, data, batch_size=10, progress=lambda done, rows: seen.append((done, rows)))
    found = {(score.domain, score.split): score for score in scores}
    assert list(found) == [(d, s) for d in "abc" for s in ("in", "out", None)] + [(None, None)]
    model = load_run(trained)
    rows = data.split("b", "out")
    expected = (model(rows.tensor).argmax(1) == rows.targets).double().mean().item()
    assert found["b", "out"] == Score("b", "out", None, "accuracy", 12, pytest.approx(expected))
    weighted = sum(found[d, s].value * found[d, s].rows for d in "abc" for s in ("in", "out"))
    assert found[None, None].value == pytest.approx(weighted / 108)
    assert seen[-1] == (108, 108)


def test_classes_are_matched_by_name(trained: Path) -> None:
    rows = images(12, 0, 5)
    straight = DomainDataset("new", 2, {"d": {"in": rows}}, ("dark", "bright"))
    turned = DomainDataset("new", 2, {"d": {"in": Split(rows.inputs, 1 - rows.targets)}}, ("bright", "dark"))
    bright = rows.rows((rows.targets == 1).nonzero().squeeze(1))
    one = DomainDataset("new", 1, {"d": {"in": Split(bright.inputs, torch.zeros_like(bright.targets))}}, ("bright",))
    assert evaluate(trained, straight) == evaluate(trained, turned)
    expected = [name == "bright" for name in load_run(trained).predict(bright.tensor)]
    assert evaluate(trained, one)[-1].value == sum(expected) / len(expected)
    with pytest.raises(ValueError, match=r"no classes but the run's \(dark, bright\), but has grey"):
        evaluate(trained, DomainDataset("new", 2, {"d": {"in": rows}}, ("dark", "grey")))


def test_groups_and_the_worst_of_them(tmp_path: Path) -> None:
    data = grouped()
    run(small_config(data, steps=2), tmp_path / "run", data=data)
    scores = [score for score in evaluate(tmp_path / "run", data) if score.split == "test" and score.domain is None]
    worst = next(score for score in scores if score.metric == "worst_group_accuracy")
    groups = [score for score in scores if score.metric == "group_accuracy"]
    assert [(score.group, score.rows) for score in groups] == [("ll", 10), ("lw", 10), ("wl", 10), ("ww", 10)]
    assert worst.value == min(score.value for score in groups)
    assert worst.rows == 40


def test_a_model_of_probe_is_refused_with_the_function_to_use(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ValueError, match=r"holds a model of 'momentalign probe'\. Use momentalign\.tables\.score_file"):
        evaluate(tmp_path, "rows.csv")


def test_rows_of_another_shape_are_refused(trained: Path) -> None:
    rows = Split(torch.zeros(4, 3, 8, 8), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(ValueError, match=r"takes rows of shape \(1, any, any\), but these have shape \(3, 8, 8\)"):
        evaluate(trained, DomainDataset("rgb", 2, {"d": {"in": rows}}, ("dark", "bright")))
