"""An option that has no effect where it is given is an error, in every mode of every command."""

from pathlib import Path
from typing import Any

import pytest
import typer.main

from momentalign.cli import app, main
from momentalign.cli._effects import FACTS, NEEDS
from tests.encoders.models import save_model, write_images
from tests.runs.fake_sweep import make_config, record, write_run

ROOT: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {**ROOT.commands, **ROOT.commands["data"].commands}
del COMMANDS["data"]

READING = "--target --domain --group --split --sep --encoding"
ALWAYS = {
    "bench": "--out --quick --paper --training --probing-grid --sweeps --dry-run",
    "diagnose": f"path {READING} --test-domain --loss --l2 --radius --order --components --seed --out --dry-run",
    "embed": f"dataset {READING} --encoder --out --batch-size --device --dry-run",
    "evaluate": "run dataset --target --domain --group --sep --encoding --out",
    "export": "run --out",
    "fetch": "name",
    "groups": f"dataset {READING} --classes --domains --out --share --holdout --trial",
    "list": "--root",
    "path": "name",
    "probe": "--target --domain --group --sep --encoding --out --model --predict --dry-run",
    "push": "folder name --licence --private --dry-run",
    "report": "folders --out --figures --title",
    "reproduce": "--list",
    "soup": "folders --out --mix --device",
    "sweep": f"datasets --algorithms {READING} --trials --select --reach --setting --out --engine --jobs "
    "--retry-failed --dry-run",
    "table": "folders --select --chosen --format --out",
    "train": f"dataset {READING} --algorithm --test-domain --steps --seed --hparams-seed --set --out --encoder "
    "--devices --device --precision --average --record-every --train-accuracy --keep --checkpoint-every --logger "
    "--compile --dry-run",
    "verify": "name",
}
"""Parameters that have an effect in every mode of their command; `sweep` checks --reach against its plan."""


def parameters_of(command: str) -> set[str]:
    return {parameter.opts[0] for parameter in COMMANDS[command].params if parameter.name != "help"}


def with_needs(command: str) -> set[str]:
    return {option for options in NEEDS.get(command, {}).values() for option in options.split()}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_where_it_has_an_effect(command: str) -> None:
    """A new option belongs in NEEDS, or here if no mode of its command, no data and no algorithm ignores it."""
    always = set(ALWAYS[command].split())
    assert not always & with_needs(command)
    assert always | (with_needs(command) & parameters_of(command)) == parameters_of(command)


def test_needs_name_what_there_is() -> None:
    assert set(NEEDS) <= set(COMMANDS)
    facts = {need.removeprefix("no ") for needs in NEEDS.values() for need in needs}
    assert set(FACTS) <= facts
    for command, needs in NEEDS.items():
        options = {
            need.removeprefix("no ").partition(" ")[0] for need in needs if need.removeprefix("no ") not in FACTS
        }
        assert options <= parameters_of(command)
    assert {option for command in NEEDS for option in with_needs(command)} <= set().union(*map(parameters_of, COMMANDS))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with tables, images, an encoder and runs."""
    folder = tmp_path_factory.mktemp("here")
    lines = [f"{k},{k % 2},{'abc'[k % 3]},{('train', 'val', 'test')[k % 5 % 3]}\n" for k in range(60)]
    (folder / "t.csv").write_text("x,y,domain\n" + "".join(line.rpartition(",")[0] + "\n" for line in lines))
    (folder / "split.csv").write_text("x,y,domain,split\n" + "".join(lines))
    write_images(folder / "photos")
    save_model("resnet", folder / "resnet")
    save_model("resnet", folder / "data" / "encoders" / "resnet")
    runs = {"network": {}, "linear": {"setting": "probe", "test_domains": []}, "table": {"dataset": "t.csv"}}
    for name, changes in runs.items():
        write_run(folder / name, make_config(**changes), [record(299, "accuracy", 0.5, "-90%", "in")], name="run")
    return folder


def check(words: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the options of a command line without running the command."""
    monkeypatch.chdir(here)
    name, *rest = words.removeprefix("data ").split()
    command = COMMANDS[name]
    monkeypatch.setattr(command, "callback", None)
    command.invoke(command.make_context(name, rest))


SWEEP = "sweep t.csv --algorithms erm,cma"
PROBE, PLAIN = f"{SWEEP} --setting probe", "sweep t.csv --algorithms logistic-regression"
PREDICT = "probe --model linear/run --predict t.csv"
IGNORED = [
    *(f"bench --sweeps {option}" for option in ("--device=cpu", "--memory=1")),
    *(f"bench --probing-grid {option}" for option in ("--device=cpu", "--memory=1")),
    "bench --training --memory=1",
    *(f"data fetch colored-digits {option}" for option in ("--from=a.zip", "--root=.", "--keep", "--dry-run")),
    "data groups t.csv --classes=0,1 --domains=a,b --out=g --root=.",
    "data path colored-digits --root=.",
    "data verify rotated-digits --root=.",
    *(f"embed t.csv --encoder=network/run {option}" for option in ("--root=data", "--workers=1", "--skip-bad-files")),
    *(f"embed colored-mnist {option}" for option in ("--workers=1", "--skip-bad-files")),
    "embed split.csv --encoder=network/run --with-split",
    *(
        f"evaluate linear/run t.csv {option}"
        for option in ("--root=.", "--device=cpu", "--batch-size=8", "--workers=1")
    ),
    *(f"evaluate linear/run t.csv {option}" for option in ("--skip-bad-files", "--split=split")),
    *(f"evaluate network/run t.csv {option}" for option in ("--root=.", "--workers=1", "--skip-bad-files")),
    "probe t.csv --id=x",
    *(
        f"{PREDICT} {option}"
        for option in ("--test-domain=a", "--task=auto", "--components=2", "--seed=0", "--overwrite")
    ),
    *(f"{PREDICT} {option}" for option in ("path", "--split=split")),
    "report linear --reach=3",
    *(
        f"reproduce costs {option}"
        for option in ("--solver=sgd", "--encoder=nonsense", "--features=f", "--preset=published")
    ),
    *(f"reproduce costs {option}" for option in ("--skip-missing", "--skip-bad-files", "--retry-failed", "--root=.")),
    *(f"reproduce costs {option}" for option in ("--jobs=1", "--per-gpu=2")),
    *(f"reproduce --list {option}" for option in ("name", "--scale=small", "--preset=released", "--encoder=e")),
    *(
        f"reproduce --list {option}"
        for option in ("--features=f", "--solver=sgd", "--skip-missing", "--skip-bad-files")
    ),
    *(
        f"reproduce --list {option}"
        for option in ("--retry-failed", "--out=o", "--jobs=1", "--device=cpu", "--dry-run")
    ),
    "reproduce --list --per-gpu=2",
    *(f"reproduce pacs {option}" for option in ("--features=f", "--solver=sgd", "--skip-missing")),
    *(f"reproduce colored-mnist {option}" for option in ("--encoder=e", "--skip-bad-files")),
    "reproduce rotated-mnist --scale=small --root=.",
    "reproduce pacs --jobs=1 --per-gpu=2",
    "reproduce pacs --device=cpu --per-gpu=2",
    *(f"reproduce waterbirds {option}" for option in ("--jobs=1", "--per-gpu=2", "--retry-failed", "--skip-missing")),
    *(f"reproduce waterbirds --features=f {option}" for option in ("--encoder=e", "--device=cpu", "--root=.")),
    "reproduce waterbirds --features=f --skip-bad-files",
    "reproduce multinli --skip-bad-files",
    "reproduce celeba-hessian --solver=sgd",
    *(f"soup table --out=s {option}" for option in ("--root=.", "--workers=1", "--skip-bad-files")),
    *(f"{PROBE} {option}" for option in ("--precision=nonsense", "--encoder=e", "--preset=safe", "--augment=none")),
    *(f"{PROBE} {option}" for option in ("--average=ema", "--device=cpu", "--per-gpu=2", "--skip-bad-files")),
    *(f"{PROBE} {option}" for option in ("--test-domains=a", "--steps=3", "--no-train-accuracy", "--holdout=0.3")),
    *(f"{PROBE} {option}" for option in ("--root=.", "--no-baselines")),
    *(f"{PLAIN} {option}" for option in ("--precision=nonsense", "--encoder=e", "--preset=safe", "--augment=none")),
    *(f"{PLAIN} {option}" for option in ("--average=ema", "--device=cpu", "--per-gpu=2", "--skip-bad-files")),
    *(f"{PLAIN} {option}" for option in ("--hparams=2", "--record-every=5", "--set=lr=1", "--no-weights")),
    *(
        f"{SWEEP} {option}"
        for option in ("--solver=converged", "--recipe=celeba", "--address=a:1", "--cpus=1", "--root=.")
    ),
    *(f"{SWEEP} {option}" for option in ("--augment=none", "--skip-bad-files", "--jobs=1 --per-gpu=2")),
    f"{SWEEP} --device=cpu --per-gpu=2",
    "sweep split.csv --algorithms=erm --holdout=0.3",
    "sweep t.csv --algorithms=erm,fishr --preset=safe",
    "sweep colored-digits photos --algorithms=erm --no-baselines",
    "table network --reach=3",
    "table network --select=oracle --reach=3",
    "train colored-digits --reach=3",
    *(f"train colored-digits {option}" for option in ("--root=.", "--workers=0", "--skip-bad-files", "--augment=none")),
    "train photos --encoder=mnist-cnn --augment=none",
    "train photos --encoder=resnet --root=data",
    "train split.csv --holdout=0.3",
    "train colored-digits --algorithm=vrex --preset=safe",
    "train colored-digits --preset=published",
]
"""Command lines whose last option has no effect."""


def test_every_option_with_needs_has_a_case() -> None:
    cases = {(words.removeprefix("data ").split()[0], words.split()[-1].partition("=")[0]) for words in IGNORED}
    cases = {(command, option.replace("--no-", "--")) for command, option in cases}
    expected = {(command, option) for command in NEEDS for option in with_needs(command) & parameters_of(command)}
    assert expected <= cases


@pytest.mark.parametrize("words", IGNORED)
def test_an_option_without_effect_is_an_error(words: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="has no effect") as caught:
        check(words, here, monkeypatch)
    option = words.split()[-1].partition("=")[0]
    assert str(caught.value).startswith(f"'{option}' has no effect with")


@pytest.mark.parametrize(
    "words",
    [
        "bench --paper --device=cpu --memory=1",
        "data fetch pacs --from=a.zip --root=. --keep --dry-run",
        "data groups pacs --classes=0,1 --domains=a,b --out=g --root=.",
        "data list --root=.",
        "embed photos --encoder=resnet --workers=1 --skip-bad-files --with-split",
        "embed colored-mnist --root=/nowhere",
        "evaluate network/run photos --device=cpu --batch-size=8 --workers=1 --skip-bad-files",
        "evaluate network/run t.csv --split=split",
        "evaluate network/run pacs --root=.",
        "probe t.csv --test-domain=a --task=auto --components=2 --seed=0 --overwrite --split=split",
        f"{PREDICT} --id=x",
        "report network --reach=3",
        "reproduce --list --root=.",
        "reproduce costs --device=cpu --scale=small --out=o --dry-run",
        "reproduce domainbed --encoder=e --skip-missing --skip-bad-files --retry-failed --root=. --jobs=1 --device=cpu",
        "reproduce domainbed --per-gpu=2",
        "reproduce probing --solver=sgd --encoder=e --skip-missing --skip-bad-files --root=. --device=cpu",
        "reproduce waterbirds --features=f --solver=sgd",
        "soup network --out=s --mix --device=cpu",
        f"{PROBE} --solver=sgd --recipe=celeba --hparams=2 --record-every=5 --set=l2=1 --no-weights",
        f"{PLAIN} --test-domains=a --steps=3 --no-train-accuracy --holdout=0.3 --no-baselines",
        f"{SWEEP} --preset=safe --precision=bf16 --average=ema --holdout=0.3 --per-gpu=2 --no-baselines",
        f"{SWEEP} --engine=ray --address=a:1 --cpus=2 --jobs=1 --per-gpu=2",
        "sweep t.csv photos --algorithms=erm --encoder=resnet --augment=none --skip-bad-files",
        "sweep colored-digits pacs --algorithms=erm --root=.",
        "table network --select=extrapolated --reach=3",
        "train photos --encoder=resnet --augment=none --workers=1 --skip-bad-files --holdout=0.3",
        "train colored-digits --algorithm=vrex --preset=released --holdout=0.3",
        "train colored-digits --keep=extrapolated --reach=3",
        "train photos --encoder=hf:encoders/resnet?size=32 --root=data --augment=none",
        "train nothing --root=.",
    ],
)
def test_an_option_with_an_effect_is_none(words: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(words, here, monkeypatch)


def test_the_error_is_one_line_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["momentalign", "sweep", "x.csv", "--algorithms", "erm", "--solver", "sgd"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "Error: '--solver' has no effect without --setting probe. Omit it.\n"
    assert not list(tmp_path.iterdir())
