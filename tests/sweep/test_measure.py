"""What one run will take is found out in one go: its data are listed and its encoder loaded for the few steps alone."""

from safetensors.torch import load_file

import momentalign.data._load as loading
import momentalign.encoders._build as building
from momentalign.sweep._jobs import Job, measure_run
from momentalign.training import make_config, run
from tests.encoders.models import save_model, write_images


def counted(monkeypatch, module, name):
    calls, real = [], getattr(module, name)

    def call(*arguments, **options):
        calls.append(arguments)
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, call)
    return calls


def test_nothing_is_loaded_to_be_counted(tmp_path, monkeypatch):
    save_model("resnet", tmp_path / "resnet")
    write_images(tmp_path / "images", per_class=5)
    words = {"test_domains": ["day"], "encoder": str(tmp_path / "resnet"), "hparams": {"batch_size": 4}, "steps": 3}
    config = make_config(str(tmp_path / "images"), "erm", **words)
    with monkeypatch.context() as patch:
        listed = counted(patch, loading, "read_image_folder")
        loaded = counted(patch, building, "_encoder_by_name")
        cost = measure_run(Job(config, tmp_path / "none", ()))
    assert len(listed) == 1
    assert len(loaded) <= 2  # a few steps, and more where they were quick
    run(config, tmp_path / "run", accelerator="cpu")
    kept = load_file(tmp_path / "run" / "checkpoint" / "model.safetensors")
    assert cost.weights == sum(tensor.nbytes for tensor in kept.values())


def test_weights_and_records_of_a_network_of_ours(tmp_path):
    config = make_config("colored-digits", "cma", test_domains=["-90%"], steps=3)
    cost = measure_run(Job(config, tmp_path / "none", ()))
    assert cost.weights > 10_000
    assert cost.records == 2 * (8 + 3 * 2) * 100
