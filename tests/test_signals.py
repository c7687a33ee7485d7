import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from momentalign import _signals
from momentalign._signals import Interrupts, Terminated, exit_code
from tests.processes import listen


@pytest.mark.parametrize(("number", "kind", "code"), [(signal.SIGINT, KeyboardInterrupt, 130), (15, Terminated, 143)])
def test_the_first_signal_interrupts_and_the_next_wait(number, kind, code, monkeypatch) -> None:
    ended: list[KeyboardInterrupt] = []
    monkeypatch.setattr(_signals, "_exit_now", ended.append)
    interrupts = Interrupts()
    with pytest.raises(kind) as error:
        interrupts._handle(number, None)
    assert exit_code(error.value) == code
    for again in (signal.SIGINT, signal.SIGTERM):
        interrupts._handle(again, None)
    assert not ended
    now = time.monotonic()
    monkeypatch.setattr(_signals.time, "monotonic", lambda: now + 60)
    interrupts._handle(number, None)
    assert [exit_code(error) for error in ended] == [code]


def test_forked_processes_leave_interrupts_to_their_parent(monkeypatch) -> None:
    interrupts = Interrupts()
    monkeypatch.setattr(_signals.os, "getpid", lambda: -1)
    interrupts._handle(signal.SIGINT, None)
    codes: list[int] = []
    monkeypatch.setattr(_signals.os, "_exit", codes.append)
    interrupts._handle(signal.SIGTERM, None)
    assert codes == [143]


def test_sigterm_in_a_destructor_ends_the_process_where_ctrl_c_is_ignored(monkeypatch) -> None:
    ended: list[KeyboardInterrupt] = []
    monkeypatch.setattr(_signals, "_exit_now", ended.append)
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    monkeypatch.setattr(_signals.signal, "getsignal", {2: signal.SIG_IGN, 15: signal.SIG_DFL}.get)
    monkeypatch.setattr(_signals.signal, "signal", lambda number, handler: None)
    Interrupts().install()
    sys.unraisablehook(SimpleNamespace(exc_value=Terminated()))
    assert [exit_code(error) for error in ended] == [143]


@pytest.mark.parametrize("moment", ["import", "destructor", "command"])
def test_an_interrupt_is_a_line_wherever_it_arrives(moment: str, tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text(
        "import os, signal\n"
        "class Resource:\n"
        "    def __del__(self):\n"
        "        interrupt()\n"
        "def interrupt():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "try:\n"
        f"    {'interrupt()' if moment == 'import' else 'pass'}\n"
        "except KeyboardInterrupt:\n"
        "    print('swallowed by a library')\n"
    )
    program = (
        "from momentalign._signals import Interrupts\n"
        "Interrupts().install()\n"
        "import heavy\n"
        "try:\n"
        f"    {'heavy.Resource()' if moment == 'destructor' else 'heavy.interrupt()'}\n"
        "except KeyboardInterrupt:\n"
        "    heavy.interrupt()\n"
        "    print('caught by the command')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        preexec_fn=listen,
    )
    caught = moment == "command"
    assert done.returncode == (0 if caught else 130)
    assert done.stdout == ("caught by the command\n" if caught else "")
    assert done.stderr == ("" if caught else "Interrupted.\n")
