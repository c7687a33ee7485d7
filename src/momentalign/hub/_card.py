"""Model cards from the records of a run or a probe."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from momentalign._csv import plain_cell
from momentalign._format import join_first, pluralize, slug
from momentalign._hub import hub_library
from momentalign._model_file import MODEL, read_about
from momentalign._table_spec import spec_path
from momentalign.report import algorithm_label, escape_markdown, markdown_table
from momentalign.runs import Record, read_records, read_run, saved_records, weights_note
from momentalign.tables import TableModel

_HUB_MODEL = re.compile(r"hf:(\w[\w.-]*/[\w.-]+)([@?].*)?")
_TASKS = {"image": "image-classification", "text": "text-classification", "table": "tabular-classification"}
"""The hub's names of tasks, by the kind of preprocessing."""
_INPUTS = {
    "image": "paths of images",
    "text": "sentences",
    "table": "a data frame with the columns of the table",
    "tensor": "a tensor of rows as in the data set",
}
_USAGE = """```python
from momentalign.hub import from_pretrained  # pip install 'momentalign[hub]'

model = from_pretrained("{}")
predicted = model.predict(rows)  # {}
```"""


@dataclass(frozen=True)
class CardContent:
    """Content of a card."""

    dataset: str
    task: str | None
    base_model: str | None
    summary: str
    usage: str
    facts: dict[str, str]
    heads: list[str]
    rows: list[list[str]]
    note: str
    scores: list[tuple[str, str, str, float]]  # domain, split, metric, value
    tag: str


def model_card(folder: str | Path, name: str, *, licence: str | None = None) -> str:
    """Describe a finished run or a probe as a model card: Markdown with the hub's metadata at the top.

    It lists the algorithm, data, training and held-out domains, how the weights were chosen, the accuracy of each
    domain, and versions, all from the folder's records.

    Args:
        folder: Folder of a finished run, or of `momentalign probe`.
        name: Of the model on the hub: `user/model`.
        licence: The hub's name of a licence, such as `"mit"`; None leaves the field out.

    Returns:
        The text of the hub's README.md.

    Raises:
        ValueError: The folder holds neither, or a damaged one.
    """
    folder = Path(folder)
    content = _of_run(folder) if (folder / "run.json").exists() else _of_probe(folder)
    title = name.rpartition("/")[2]
    lines = ["---", _metadata(content, title, licence), "---", "", f"# {escape_markdown(title)}", "", content.summary]
    lines += [
        "",
        "## Use",
        "",
        *_USAGE.format(name, content.usage).split("\n"),
        "",
        "## Training",
        "",
        "| | |",
        "|---|---|",
    ]
    lines += [f"| {escape_markdown(key)} | {escape_markdown(value)} |" for key, value in content.facts.items() if value]
    if content.rows:
        lines += ["", "## Results", "", *markdown_table(content.heads, content.rows)]
    return "\n".join([*lines, "", content.note, ""])


def _metadata(content: CardContent, title: str, licence: str | None) -> str:
    hub = hub_library("Model cards need", extra="hub")
    results = [
        hub.EvalResult(
            task_type=content.task or "other",
            dataset_type=re.sub(r"[^A-Za-z0-9._-]+", "-", content.dataset),
            dataset_name=content.dataset,
            dataset_config=domain,
            dataset_split=split,
            metric_type=metric,
            metric_value=round(value, 4),
        )
        for domain, split, metric, value in content.scores
    ]
    data = hub.ModelCardData(
        library_name="momentalign",
        license=licence,
        pipeline_tag=content.task,
        base_model=content.base_model,
        tags=["domain-generalization", content.tag],
        model_name=title if results else None,
        eval_results=results or None,
    )
    return str(data.to_yaml()).strip()


def _of_run(folder: Path) -> CardContent:
    info = read_run(folder)
    config, description = info["config"], read_about(folder / MODEL)
    kind = description["encoder"].get("preprocessing", {}).get("kind", "tensor")
    saved = info.get("weights")
    records = read_records(folder)
    last = max((record["step"] for record in records), default=0)
    own = [record for record in records if record["step"] == last] if saved is None else saved_records(records, saved)
    dataset, test = public_name(config["dataset"]), list(config["test_domains"])
    encoder = public_name(config.get("encoder") or description["encoder"]["kind"])
    algorithm = algorithm_label(config["algorithm"])
    hub_model = _HUB_MODEL.fullmatch(encoder)
    facts = {
        "algorithm": algorithm,
        "data": dataset,
        "training domains": ", ".join(domain for domain in info["domains"] if domain not in test),
        "held-out domains": ", ".join(test) or "none: all domains were trained on",
        "held-out rows": f"{100 * config['holdout']:g}% of each training domain",
        "classes": ", ".join(info["classes"]),
        "encoder": encoder,
        "steps": str(config["steps"]),
        "hyper-parameters": ", ".join(f"{key} {value}" for key, value in config["hparams"].items()),
        "selection of the weights": _selection(info),
        "seed": str(config["trial"]),
        "versions": _versions(info),
        "finished": str(info["finished"]),
    }
    held_out = f" It was not trained on {escape_markdown(join_first(test))}." if test else ""
    return CardContent(
        dataset=dataset,
        task=_TASKS.get(kind),
        base_model=None if hub_model is None else hub_model[1],
        summary=f"A classifier of {escape_markdown(dataset)}, trained with {escape_markdown(algorithm)}.{held_out}",
        usage=f"list of class names; rows are {_INPUTS.get(kind, 'as in the data set')}",
        facts=facts,
        **_run_results(own, info["domains"], test),
        tag=slug(config["algorithm"]),
    )


def _selection(info: Mapping[str, Any]) -> str:
    soup = info.get("soup")
    if soup:
        return f"{soup['kind']}, the mean of {pluralize(len(soup['runs']), 'run')} of {len(soup['of'])}"
    saved = info.get("weights")
    note = None if saved is None else weights_note(saved, info["config"]["steps"])
    return note or "the last step; nothing was selected within the run"


def _run_results(records: Sequence[Record], domains: Sequence[str], test: Sequence[str]) -> dict[str, Any]:
    """Rows and note of the table of accuracies, and the scores for the hub's metadata."""
    accuracy = {
        (record["domain"], record["split"]): value
        for record in records
        if record["metric"] == "accuracy" and (value := record.get("value")) is not None and "group" not in record
    }
    splits = list(dict.fromkeys(str(split) for _, split in accuracy))
    rows, scores = [], []
    for domain in domains:
        values = {split: accuracy[domain, split] for split in splits if (domain, split) in accuracy}
        marked = f"{domain} (not trained on)" if domain in test else domain
        rows.append([marked, *(f"{100 * values[split]:.1f}" if split in values else "–" for split in splits)])
        if values:
            split = "out" if "out" in values else list(values)[-1]
            scores.append((domain, split, "accuracy", values[split]))
    note = (
        "Accuracy in %, of the weights that are saved here. Rows of the split `in` of a training domain were trained "
        "on, those of `out` were held out. It is one run: its spread over seeds is not known, and how its "
        "hyper-parameters were chosen is not recorded."
    )
    return {"heads": ["domain", *splits], "rows": rows if scores else [], "note": note, "scores": scores}


def _of_probe(folder: Path) -> CardContent:
    model = TableModel.load(folder)
    about = model.about
    task = str(about.get("task", "classification"))
    source = about.get("source", {})
    scores = _read_scores(folder / "scores.csv")
    models = list(dict.fromkeys(row["model"] for row in scores))
    names = dict.fromkeys((row["name"], row["rows"]) for row in scores)
    values = {(row["name"], row["model"]): row["value"] for row in scores}
    metric = scores[0]["metric"] if scores else "accuracy"
    held_out = source.get("test domain")
    domain, target = str(about.get("domain")), str(about.get("target"))
    chosen = about.get("chosen") or {}
    facts = {
        "predicts": f"{target} ({task})",
        "classes": ", ".join(model.classes or ()) or "none: a regression",
        "columns": join_first([column.name for column in model.encoder.columns], 20),
        "domains": f"values of {domain}",
        "held-out domain": str(held_out) if held_out else "each in turn for the results; the model is fitted on all",
        "chosen inside the training domains": ", ".join(f"{key} {value}" for key, value in chosen.items()),
        "why": str(about.get("reason", "")),
        "versions": f"momentalign {read_about(folder / MODEL)['momentalign']}",
    }
    return CardContent(
        dataset=target,
        task=f"tabular-{task}" if task in ("classification", "regression") else None,
        base_model=None,
        summary=f"A linear model that predicts {escape_markdown(target)} for rows of new values of "
        f"{escape_markdown(domain)}.",
        usage="for a data frame with the columns below",
        facts=facts,
        heads=["", "rows", *models],
        rows=[[row, rows, *(_rounded(values.get((row, one), "")) for one in models)] for row, rows in names],
        note=f"{metric.capitalize().replace('_', ' ')} on rows of domains that a model was not fitted on. The last "
        "column is the model that is saved here.",
        scores=[
            (row["name"], "held out", metric, float(row["value"]))
            for row in scores
            if row["kind"] == "domain" and row["model"] == models[-1]
        ],
        tag="tabular",
    )


def _read_scores(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [{key: plain_cell(cell or "") for key, cell in row.items()} for row in csv.DictReader(file)]


def _rounded(value: str) -> str:
    return f"{float(value):.4g}" if value else "–"


def _versions(info: Mapping[str, Any]) -> str:
    versions = {"momentalign": info.get("momentalign"), **(info.get("versions") or {})}
    return ", ".join(f"{package} {version}" for package, version in versions.items()) + f"; {info.get('device')}"


def public_name(name: str) -> str:
    """Cut a path, which may name people and machines, to its last part; names of models on the hub are unchanged.

    Example:
        >>> public_name("/home/ada/patients.csv"), public_name("hf:google/vit"), public_name("hf:/models/vit")
        ('patients.csv', 'hf:google/vit', 'hf:vit')
    """
    if _HUB_MODEL.fullmatch(name):
        return name
    path = spec_path(name)  # names of columns after it may have slashes
    return re.sub(r"^(hf:|hf-config:)?.*[/\\]", r"\1", path.rstrip("/\\"), flags=re.DOTALL) + name[len(path) :]
