import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from momentalign.algorithms import ERM, Batch, draw_hyperparameters, find_algorithm
from tests.algorithms.own import Doubled, LogitSize
from tests.algorithms.tiny import CLASSES, FEATURES, K, assert_descends, batch, build, descents, hparams, network, run
from tests.references import assert_equal

OWN = "tests.algorithms.own"


def test_custom_penalty() -> None:
    spec = find_algorithm(f"{OWN}:LogitSize")
    assert (spec.name, spec.label) == (f"{OWN}:LogitSize", "LogitSize")
    space = spec.space("mnist", 10)
    assert {"weight", "power"} == set(space) - set(find_algorithm("erm").space("mnist", 10))
    assert draw_hyperparameters(space, 3)["power"] == 2
    algorithm = build(f"{OWN}:LogitSize", weight=0.25, power=4)
    assert isinstance(algorithm, ERM)
    assert isinstance(algorithm.penalty, LogitSize)
    assert (algorithm.penalty.num_domains, algorithm.penalty.power) == (K, 4)
    assert not algorithm.capturable  # it may read something back: only its author knows
    assert algorithm.distributed

    def loss(twin: nn.Module, rows: Batch, step: int) -> Tensor:
        _, logits = twin(rows.inputs)
        return nn.functional.cross_entropy(logits, rows.targets) + 0.25 * logits.pow(4).mean()

    assert_descends(algorithm, loss)


def test_custom_search_space() -> None:
    spec = find_algorithm(f"{OWN}:Searched")
    assert spec.space("mnist", 10)["weight"].default == 1.0
    assert spec.space("image", 10)["weight"].default == 2.0
    assert draw_hyperparameters(spec.space("mnist", 10), 1)["weight"] in (3.0, 4.0)
    assert "power" not in spec.space("mnist", 10)
    assert (spec.label, spec.term_labels) == ("Logit size", {"size": "mean size of the logits"})
    assert build(f"{OWN}:Searched").capturable


def test_presets_of_a_class_without_them_are_its_only_space() -> None:
    for name in (f"{OWN}:Searched", "coral", "erm"):
        spec = find_algorithm(name)
        assert not spec.has_space("safe")
        assert spec.space("image", 10, "safe").keys() == spec.space("image", 10).keys()
    with pytest.raises(ValueError, match="'preset' should be one of"):
        find_algorithm("cma").space("image", 10, "auto")


def test_other_terms_are_not_captured_by_inheritance() -> None:
    assert find_algorithm(f"{OWN}:Overridden").label == "Overridden"
    assert not build(f"{OWN}:Overridden").capturable


def test_custom_algorithm() -> None:
    algorithm = build(f"{OWN}:Doubled", factor=3.0)
    assert isinstance(algorithm, Doubled)
    (logged,) = run(algorithm, descents(algorithm), range(1))
    expected = nn.functional.cross_entropy(network()(batch().inputs)[1], batch().targets)
    assert_equal(logged["loss"], 3 * expected)


def test_a_penalty_of_this_package_by_its_path() -> None:
    algorithm = build("momentalign:Fishr", weight=2.0)
    space = find_algorithm("momentalign:Fishr").space("mnist", 10)
    assert {"weight", "momentum", "anneal_steps"} <= set(space)
    assert "num_domains" not in space
    run(algorithm, algorithm.optimizers(), range(2))
    sizes = {buffer.numel() for buffer in algorithm.penalty.buffers()}
    assert K * CLASSES * (FEATURES + 1) in sizes


def test_a_module_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(tmp_path, "lying_here.py").write_text("from momentalign import VREx\nclass Mine(VREx): ...\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert "weight" in find_algorithm("lying_here:Mine").space("mnist", 10)
    assert sys.path == before
    sys.modules.pop("lying_here")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cam", "There is no algorithm 'cam'. There are: erm, .*'package.module:Name'. Did you mean 'cma'?"),
        ("CMA", "Did you mean 'cma'?"),
        ("group-dro", "Did you mean 'groupdro'?"),
        ("nowhere.module:Name", "there is no module 'nowhere' here or installed"),
        (f"{OWN}.deeper:Name", "there is no module 'tests.algorithms.own.deeper'"),
        (f"{OWN}:Missing", "DomainPenalty or Algorithm class, but is None"),
        (f"{OWN}:NUMBER", "but is 3"),
        (f"{OWN}:Tensor", "but is <class 'torch.Tensor'>"),
        (f"{OWN}:Unfinished", "should be a concrete .*lacks update"),
        (":Name", "should look like 'package.module:Name'"),
        (".relative:Name", "should look like 'package.module:Name'"),
        ("sub/mine.py:Own", "should look like 'package.module:Name'"),
        ("C:/folder/file.py", "should look like 'package.module:Name', but is 'C:/folder/file.py'"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_algorithm(name)


def test_an_error_inside_a_custom_module_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(tmp_path, "broken_here.py").write_text("import a_library_that_is_missing\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_missing"):
        find_algorithm("broken_here:Mine")


def test_hyperparameters_are_checked_before_anything_is_built() -> None:
    spec = find_algorithm("cma")
    with pytest.raises(ValueError, match=r"no hyper-parameter 'gradient_wight'.*Did you mean 'gradient_weight'"):
        spec.build(network(), K, hparams("cma") | {"gradient_wight": 1.0})
    lacking = {name: value for name, value in hparams("cma").items() if name != "lr"}
    with pytest.raises(ValueError, match=r"'hparams' of 'cma' should have all of lr, .*but 'lr' is missing"):
        spec.build(network(), K, lacking)
    with pytest.raises(ValueError, match="'gradient_weight' should be finite and not below 0"):
        spec.build(network(), K, hparams("cma") | {"gradient_weight": -1.0})
    with pytest.raises(ValueError, match="'num_domains' should be at least 1"):
        spec.build(network(), 0, hparams("cma"))
    assert torch.is_grad_enabled()


def test_the_ways_to_write_an_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_algorithm("momentalign.penalties.CORAL").label == "CORAL"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unclosed.py").write_text("x = (1,\n")
    with pytest.raises(ValueError, match=r"'unclosed:Own' cannot be imported: .*unclosed.py, line 1\)\.$"):
        find_algorithm("unclosed:Own")
