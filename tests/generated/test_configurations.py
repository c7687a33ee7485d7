"""Configurations, run.json and plans over generated values: round trips, or an error in one sentence."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from momentalign._validation import check_count
from momentalign.cli._options import parse_settings
from momentalign.runs import RunConfig, read_run, read_runs
from momentalign.runs._run_json import describe_run
from momentalign.training import make_config
from tests.generated.cases import answer, cases
from tests.generated.strategies.tables import odd_texts

numbers = st.one_of(st.integers(-3, 10), st.sampled_from([10**30, -(10**30), 0.5, 1e300, -0.0, True, "3", None]))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), odd_texts),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_texts, inner, max_size=3),
    max_leaves=6,
)
names = st.one_of(st.sampled_from(["erm", "cma", "fishr", "dann", "hgp", "cma-momentum", "nothing:Class"]), odd_texts)
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


@cases(config=configurations, key=st.sampled_from(["format", "config", "status", "domains", "classes"]), value=values)
def test_odd_descriptions_are_problems_with_a_name(config: RunConfig, key: str, value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder, "one")
        inside.mkdir()
        content = describe_run(config, config.test_domains) | {key: value}
        (inside / "run.json").write_text(json.dumps(content), encoding="utf-8")
        (inside / "records.jsonl").touch()
        sweep = answer(lambda: read_runs(Path(folder)))
        if sweep is not None:
            assert len(sweep.runs) + len(sweep.problems) > 0


@cases(text=st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
def test_any_description_is_read_or_refused(text: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "run.json").write_bytes(text)
        assert answer(lambda: read_run(Path(folder))) is None


@cases(
    algorithm=names,
    test_domains=st.lists(st.sampled_from(["+90%", "-90%"]) | odd_texts, max_size=2),
    trial=numbers,
    hparams_seed=numbers,
    steps=numbers,
    record_every=numbers,
    holdout=st.one_of(numbers, st.floats()),
    hparams=st.dictionaries(st.sampled_from(["lr", "batch_size", "gradient_weight", "clip"]) | odd_texts, numbers),
    choice=st.sampled_from(
        [("precision", "16"), ("average", "x"), ("preset", ""), ("augment", None), ("encoder", "gone/model")]
    ),
)
def test_runs_are_configured_or_refused(
    algorithm: str, test_domains: list[str], choice: tuple[str, Any], **options: Any
) -> None:
    for more in ({}, dict([choice])):
        config = answer(
            lambda: make_config("colored-digits", algorithm, test_domains=test_domains, **options, **more)  # noqa: B023
        )
        if config is not None:
            assert check_count("steps", config.steps, 1) >= 1
            assert 0 <= config.holdout < 1
            assert json.loads(json.dumps(config.to_dict())) == config.to_dict()


@cases(pairs=st.lists(odd_texts | st.tuples(odd_texts, odd_texts).map("=".join), max_size=3))
def test_settings_are_read_or_refused(pairs: list[str]) -> None:
    found = answer(lambda: parse_settings(pairs))
    if found is not None:
        assert set(found) == {pair.partition("=")[0] for pair in pairs}
