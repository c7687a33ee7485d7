import sys
from pathlib import Path

import pytest

from momentalign import _machine
from momentalign.training import make_config, run

pytestmark = pytest.mark.slow


@pytest.fixture
def trapping(tmp_path: Path) -> tuple[Path, Path]:
    """A Python that dies of an illegal instruction, and the flags of a CPU with AMX."""
    python, cpuinfo = tmp_path / "python", tmp_path / "cpuinfo"
    python.write_text("#!/bin/sh\nkill -ILL $$\n")
    python.chmod(0o755)
    cpuinfo.write_text("flags : avx512_bf16 amx_bf16 amx_tile\n")
    return python, cpuinfo


def test_illegal_instruction_is_detected(trapping: tuple[Path, Path], tmp_path: Path) -> None:
    python, cpuinfo = trapping
    assert not _machine._survives_bfloat16(str(python), None, cpuinfo)
    assert not _machine._survives_bfloat16(str(python), None, tmp_path / "missing")  # unknown flags: probed


def test_cpu_without_amx_is_not_probed(trapping: tuple[Path, Path]) -> None:
    python, cpuinfo = trapping
    cpuinfo.write_text("flags : avx512_bf16\n")
    assert _machine._survives_bfloat16(str(python), None, cpuinfo)


def test_step_of_the_probe_runs(trapping: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert _machine._survives_bfloat16(sys.executable, "AVX2", trapping[1])


def test_a_quota_limits_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # joblib counts it, as it does a container's quota
    assert _machine.available_cores() == 1


def test_training_names_the_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("momentalign.training._devices.cpu_bfloat16_works", lambda: False)
    config = make_config("colored-digits", test_domains=["-90%"], steps=1, precision="bf16")
    with pytest.raises(ValueError, match=r"illegal instruction\). Set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16, or use"):
        run(config, tmp_path / "run", accelerator="cpu")
    assert not (tmp_path / "run").exists()
