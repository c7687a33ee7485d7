import subprocess
import sys

import pytest

import momentalign

pytestmark = pytest.mark.slow


def test_penalties_and_modules_are_imported_on_first_access() -> None:
    program = (
        "import sys, momentalign; assert 'torch' not in sys.modules; momentalign.CMA; assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert momentalign.functional.alignment is not None
    assert {"CMA", "load", "theory", "__version__"} <= set(dir(momentalign))


def test_every_public_name_exists() -> None:
    for name in (*momentalign.__all__, *momentalign._MODULES):
        assert getattr(momentalign, name) is not None
    with pytest.raises(AttributeError, match="module 'momentalign' has no attribute 'CAM'"):
        _ = momentalign.CAM
