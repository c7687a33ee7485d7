import json
from pathlib import Path

from benchmarks.groups.speed import main, make_groups


def test_every_method_is_timed(tmp_path: Path) -> None:
    X, y, attribute = make_groups(400, 3)
    assert (y == attribute).mean() > 0.9
    assert X.shape == (400, 3)
    out = tmp_path / "speed.json"
    assert main(["--out", str(out)], rows=120, features=3, methods=("balanced", "dfr")) == 0
    rows = json.loads(out.read_text())["rows"]
    assert [row["name"] for row in rows] == ["plain", "balanced", "dfr", "search over all"]
    assert rows[0]["time_ratio"] == 1
