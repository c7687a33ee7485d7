"""Models by their names on the hub, which here is a server on this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.encoders.hub import Hub
from tests.encoders.models import save_model, write_images

pytestmark = pytest.mark.slow

# Builds the encoders that it is told, a line each, until there are no more.
PROGRAM = """
import os, sys, warnings
warnings.simplefilter("error")
from momentalign.data import load_dataset
from momentalign.encoders import build_encoder
data = load_dataset(sys.argv[1])
for line in sys.stdin:
    os.environ["HF_HUB_OFFLINE"] = "1" if line.startswith("offline ") else ""
    try:
        encoder = build_encoder(line.strip().removeprefix("offline "), data)
        print(encoder.source, encoder.num_features, encoder.preprocessing.mean[0], flush=True)
    except ValueError as error:
        print("ValueError:", error, flush=True)
"""


class Builder:
    """A process of its own: the library reads the hub's address when it is imported."""

    def __init__(self, folder: Path, endpoint: str) -> None:
        settings = {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "cache"), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        command = [sys.executable, "-c", PROGRAM, str(folder / "images")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=os.environ | settings, **pipes)  # type: ignore[call-overload]

    def __call__(self, spec: str) -> str:
        self.process.stdin.write(f"{spec}\n")
        self.process.stdin.flush()
        return str(self.process.stdout.readline()).strip()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Builder]]:
    """A hub with a model in safetensors and one whose safetensors are in the pull request of a converter."""
    folder = tmp_path_factory.mktemp("hub")
    write_images(folder / "images")
    save_model("resnet", folder / "new", mean=0.3)
    (folder / "new" / "pytorch_model.bin").write_bytes(b"not wanted")
    (folder / "new" / "modeling.py").write_text("raise SystemExit('code was run')")
    shutil.copytree(folder / "new", folder / "converted")
    shutil.copytree(folder / "new", folder / "old")
    (folder / "old" / "model.safetensors").unlink()
    listed = {
        "status": "open",
        "isPullRequest": True,
        "createdAt": "2023-01-01T00:00:00.000Z",
        "repo": {"name": "some/old", "type": "model"},
    }
    somebodys = {**listed, "num": 3, "title": "Adding `safetensors` variant of this model", "author": {"name": "else"}}
    converters = {**somebodys, "num": 5, "author": {"name": "SFconvertbot"}}
    models = {
        "some/new": {"main": folder / "new"},
        "some/old": {"main": folder / "old", "refs/pr/5": folder / "converted"},
    }
    with Hub(models, {"some/old": [somebodys, converters]}) as hub:
        build = Builder(folder, hub.address)
        yield hub, build
        build.process.communicate("", timeout=300)


def test_from_the_first_download_to_work_without_the_hub(world: tuple[Hub, Builder]) -> None:
    hub, build = world
    assert build("hf:some/new") == "hf:some/new 16 0.3"
    assert any("model.safetensors" in request for request in hub.requests)
    assert not any(name in request for request in hub.requests for name in ("pytorch_model.bin", "modeling.py"))
    asked = len(hub.requests)
    assert build("hf:some/new") == "hf:some/new 16 0.3"
    assert len(hub.requests) == asked  # not even whether there is something newer
    # No safetensors on the main branch: those of the hub's converter, not those that anybody offers.
    assert build("hf:some/old") == "hf:some/old 16 0.3"
    assert build("hf:some/thing").startswith("ValueError: The hub has no public model 'some/thing'.")
    assert build("hf:some/new@v2").startswith("ValueError: The hub's model 'some/new' has no revision 'v2'.")
    assert build("hf:two words").startswith("ValueError: 'two words' cannot be downloaded from the hub: ")
    hub.stop()
    assert build("hf:some/new") == "hf:some/new 16 0.3"
    assert build("hf:some/old") == "hf:some/old 16 0.3"
    assert build("hf:some/old@refs/pr/5") == "hf:some/old@refs/pr/5 16 0.3"
    answer = build("hf:some/thing")
    assert answer.startswith(
        f"ValueError: 'some/thing' is not in the local cache, and {hub.address} does not respond ("
    )
    assert build("offline hf:some/thing") == (
        "ValueError: 'some/thing' is not in the local cache, and HF_HUB_OFFLINE is set. Use the path of a folder "
        "with the model, or run again with access to the hub."
    )
