"""Configurations, run.json and plans over generated values: round trips, or an error in one sentence."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from momentalign._validation import check_count
from momentalign.cli._options import parse_settings
from momentalign.runs import RunConfig, read_run
from momentalign.runs._run_json import describe_run
from momentalign.training import make_config
from tests.generated.cases import answer, cases
from tests.generated.strategies.tables import odd_texts

configurations = st.builds(
    RunConfig,
    dataset=odd_texts,
    algorithm=odd_texts,
    test_domains=st.lists(odd_texts, max_size=3).map(tuple),
    trial=st.integers(0, 2**31),
    hparams_seed=st.integers(0, 2**31),
    hparams=st.dictionaries(
        odd_texts, st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**31), 2**31))
    ),
    steps=st.integers(1, 2**31),
    record_every=st.integers(1, 2**31),
    encoder=st.none() | odd_texts,
    holdout=st.floats(0, 1),
    precision=st.sampled_from(["32", "bf16"]),
    average=st.sampled_from(["none", "ema"]),
    preset=st.sampled_from(["published", "safe"]),
)


@cases(config=configurations)
def test_configurations_come_back_from_their_folder(config: RunConfig) -> None:
    with tempfile.TemporaryDirectory() as folder:
        content = describe_run(config, config.test_domains)
        Path(folder, "run.json").write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        read = read_run(Path(folder))["config"]
    again = RunConfig(**{**read, "test_domains": tuple(read["test_domains"])})
    assert again == config
    assert again.hash() == config.hash() == content["hash"]


@cases(
    options=st.fixed_dictionaries(
        {
            "algorithm": st.sampled_from(["erm", "cma", "fishr", "dann", "hgp", "cma-momentum"]),
            "test_domains": st.lists(st.sampled_from(["+90%", "-90%"]), max_size=2),
            **{name: st.integers(1, 10) for name in ("trial", "hparams_seed", "steps", "record_every")},
            "holdout": st.floats(0, 0.9),
            "hparams": st.dictionaries(st.sampled_from(["lr", "batch_size", "weight_decay"]), st.integers(1, 10)),
        }
    ),
    odd=st.none()
    | st.tuples(
        st.sampled_from(["trial", "hparams_seed", "steps", "record_every", "holdout"]),
        st.sampled_from([-3, 10**30, 0.5, 1e300, -0.0, True, "3", None]),
    )
    | st.tuples(st.sampled_from(["algorithm", "precision", "average", "preset", "encoder"]), odd_texts),
)
def test_runs_are_configured_or_refused(options: dict[str, Any], odd: tuple[str, Any] | None) -> None:
    config = answer(lambda: make_config("colored-digits", **options | dict([odd] if odd else [])))
    if config is not None:
        assert check_count("steps", config.steps, 1) >= 1
        assert 0 <= config.holdout < 1
        assert json.loads(json.dumps(config.to_dict())) == config.to_dict()


@cases(pairs=st.lists(st.tuples(odd_texts, odd_texts).map("=".join) | st.just("a=1"), max_size=2))
def test_settings_are_read_or_refused(pairs: list[str]) -> None:
    found = answer(lambda: parse_settings(pairs))
    if found is not None:
        assert set(found) == {pair.partition("=")[0] for pair in pairs}
