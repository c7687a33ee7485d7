import sys

import pytest

from momentalign._extras import require, require_lightning


def test_an_installed_module_is_imported() -> None:
    assert require("json.decoder", "Files need", extra="cli").JSONDecoder


def test_a_missing_module_is_named_as_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^Files need nothing_here, .* 'momentalign\[cli\]', or stay\.$"):
        require("nothing_here.at_all", "Files need", extra="cli", alternative=", or stay")
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "PIL.Image", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"^Images need Pillow, which is not installed\."):
        require("PIL.Image", "Images need", extra="vision")


def test_lightning_under_the_name_of_either_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require_lightning("fabric.strategies", "Training needs").DDPStrategy
    monkeypatch.setattr("momentalign._extras.find_spec", lambda name: None if name == "lightning" else name)
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    with pytest.raises(ModuleNotFoundError, match=r"^Training needs lightning_fabric, .* 'momentalign\[train\]'\.$"):
        require_lightning("fabric.strategies", "Training needs")
