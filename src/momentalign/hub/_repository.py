"""Upload and download of models on the Hugging Face hub."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import momentalign
from momentalign._hub import hub_library, readable_errors, why_unreachable
from momentalign._model_file import MODEL, model_bytes, read_model
from momentalign.hub._card import model_card, public_name
from momentalign.runs import RunState, read_run

if TYPE_CHECKING:
    from momentalign.tables import TableModel
    from momentalign.training import Predictor

CARD = "README.md"
_FILES = ("run.json", "records.jsonl", MODEL, "scores.csv")


def push_to_hub(
    folder: str | Path,
    name: str,
    *,
    licence: str | None = None,
    private: bool | None = None,
    token: str | None = None,
    card: str | None = None,
) -> str:
    """Upload a finished run or a probe, with a model card, as one commit.

    Creates the repository if it does not exist. Uploads weights, descriptions, records and the card, replacing those of
    an earlier model; training state is not uploaded. Paths of data and encoders are cut to their last part.
    Names of columns, domains and classes are part of a model.

    Args:
        folder: Folder of a finished run, or of `momentalign probe`.
        name: Of the model on the hub: `user/model`.
        licence: The hub's name of a licence, such as `"mit"`; None leaves it open.
        private: Whether a new repository is private; None for the default of the account.
        token: Of the hub; None takes that of `hf auth login` or `HF_TOKEN`.
        card: Text of the model card; None makes it by :func:`model_card`.

    Returns:
        Address of the commit.

    Raises:
        ValueError: The folder holds no finished model, or the hub refuses it.
    """
    folder = Path(folder)
    contents = files_to_upload(folder)
    contents[CARD] = (model_card(folder, name, licence=licence) if card is None else card).encode()
    hub = hub_library("Uploads to the hub need", extra="hub")
    if (reason := why_unreachable(hub)) is not None:
        raise ValueError(f"'{name}' cannot be uploaded: {reason}.")
    missing = f"'{name}' cannot be uploaded: the hub knows no such repository of yours. Run 'hf auth login'."
    with readable_errors(hub, name, "uploaded", missing):
        api = hub.HfApi(token=token, library_name="momentalign")
        repository = api.create_repo(name, private=private, exist_ok=True).repo_id
        earlier = set(api.list_repo_files(repository)) & {*_FILES}
        operations = [hub.CommitOperationDelete(path) for path in sorted(earlier - set(contents))]
        operations += [hub.CommitOperationAdd(path, content) for path, content in contents.items()]
        message = f"Upload a model of momentalign {momentalign.__version__}"
        return str(api.create_commit(repository, operations, commit_message=message).commit_url)


def from_pretrained(
    name: str, *, revision: str | None = None, token: str | None = None, cache_dir: str | Path | None = None
) -> "Predictor | TableModel":
    """Download and load a model that :func:`push_to_hub` uploaded.

    Downloads the files of the model only and runs no code. Without a connection the copy in the
    hub's local cache is used.

    Args:
        name: Of the model on the hub: `user/model`.
        revision: Branch, tag or commit; None for the main branch.
        token: Of the hub; None takes that of `hf auth login` or `HF_TOKEN`.
        cache_dir: Folder of the local cache; None for the hub's own.

    Returns:
        The model, as :func:`momentalign.load` returns it.

    Raises:
        ValueError: There is no such model, it was not uploaded by this package, or it is damaged.
    """
    hub = hub_library("Models on the hub need", extra="hub")
    reason = why_unreachable(hub)
    missing = (
        f"The hub has no model '{name}' that you may read. Names look like user/model; for private ones run "
        "'hf auth login'."
    )
    try:
        with readable_errors(hub, name, "downloaded from the hub", missing, revision):
            path = hub.snapshot_download(
                name,
                revision=revision,
                token=token,
                cache_dir=cache_dir,
                allow_patterns=[*_FILES],
                local_files_only=reason is not None,
            )
    except ValueError:
        if reason is None:
            raise
        raise ValueError(f"'{name}' is not in the local cache, and {reason}.") from None
    folder = Path(path)
    if not (folder / "run.json").exists() and not (folder / MODEL).exists():
        raise ValueError(f"'{name}' should be a model of momentalign, but has neither run.json nor {MODEL}.")
    return momentalign.load(folder)


def files_to_upload(folder: str | Path) -> dict[str, Path | bytes]:
    """What :func:`push_to_hub` uploads besides the model card, by its path in the repository.

    Args:
        folder: Folder of a finished run, or of `momentalign probe`.

    Returns:
        The path of a file, or the content where it differs from the file's.

    Raises:
        ValueError: The folder holds no finished model, or a damaged one.
    """
    folder = Path(folder)
    if not (folder / "run.json").exists() and (folder / MODEL).is_file():
        momentalign.load(folder)  # raises where it is damaged
        return {name: folder / name for name in _FILES if (folder / name).is_file()}
    info = read_run(folder)
    if info["status"] is not RunState.FINISHED:
        raise ValueError(f"{folder} should be a finished run, but is {info['status']}. Train it to its end first.")
    if info["config"].get("setting") == "probe":
        raise ValueError(
            f"{folder} is a run of the probing protocol. Upload a folder of 'momentalign probe' or 'train'."
        )
    momentalign.load(folder)
    description, weights = read_model(folder / MODEL)
    soup = info.get("soup", {})  # runs of the same name are named by their paths
    for values, key in (
        (info["config"], "dataset"),
        (info["config"], "encoder"),
        (description, "dataset"),
        (description["encoder"], "source"),
        (soup, "runs"),
        (soup, "of"),
    ):
        if value := values.get(key):
            values[key] = public_name(value) if isinstance(value, str) else [*map(public_name, value)]
    return {
        "run.json": json.dumps(info, indent=1, ensure_ascii=False).encode(),
        "records.jsonl": folder / "records.jsonl",
        MODEL: model_bytes(weights, description),
    }
