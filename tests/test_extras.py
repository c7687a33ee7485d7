import sys

import pytest

from momentalign._extras import need


def test_what_is_there_is_imported() -> None:
    assert need("json.decoder", "Files need", extra="cli").JSONDecoder


def test_what_is_not_there_is_named_as_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"^Files need nothing_here, .* 'momentalign\[cli\]', or stay\.$"):
        need("nothing_here.at_all", "Files need", extra="cli", otherwise=", or stay")
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.delitem(sys.modules, "PIL.Image", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"^Images need Pillow, which is not installed\."):
        need("PIL.Image", "Images need", extra="vision")
