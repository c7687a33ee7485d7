"""Download models from the Hugging Face hub."""

from pathlib import Path
from typing import Any

from momentalign._hub import hub_library, readable_errors, why_unreachable

_FILES = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
)
"""Files to download: weights and descriptions, no code and no pickles."""
_CONVERSION = "Adding `safetensors` variant of this model"
_CONVERTER = "SFconvertbot"
"""Title and author of the pull request with safetensors of a model that only has other weights."""


def fetch_model(name: str, revision: str | None = None) -> Path:
    """Return the folder of a model in the hub's local cache, downloading it if it is not there.

    A cached model is used as it is, without a request. `revision` is a branch, tag, commit or pull request
    ("refs/pr/15"), by default the main branch.
    """
    hub = hub_library("Hugging Face encoders need", extra="train")
    if (folder := _cached(hub, name, revision)) is not None:
        return folder
    if (reason := why_unreachable(hub)) is not None:
        raise ValueError(
            f"'{name}' is not in the local cache, and {reason}. Use the path of a folder with the model, or run again "
            "with access to the hub."
        )
    missing = (
        f"The hub has no public model '{name}'. Names look like google/vit-base-patch16-224; use a path for a local "
        "folder."
    )
    with readable_errors(hub, name, "downloaded from the hub", missing, revision):
        folder = Path(hub.snapshot_download(name, revision=revision, allow_patterns=list(_FILES)))
        if revision is None and not _has_weights(folder) and (reference := _conversion(hub, name)) is not None:
            folder = Path(hub.snapshot_download(name, revision=reference, allow_patterns=list(_FILES)))
    return folder


def _cached(hub: Any, name: str, revision: str | None) -> Path | None:
    """The newest complete copy of a model in the cache: of the main branch or the hub's conversion of it."""
    try:
        repositories = hub.scan_cache_dir().repos
    except hub.errors.CacheNotFound:
        return None
    copies = []
    for repository in repositories:
        if repository.repo_id == name and repository.repo_type == "model":
            for copy in repository.revisions:
                known = {copy.commit_hash, *copy.refs}
                wanted = revision in known if revision else any(r == "main" or r.startswith("refs/pr/") for r in known)
                if wanted and _has_weights(copy.snapshot_path):
                    copies.append(("main" in copy.refs, copy.last_modified, copy.snapshot_path))
    return Path(max(copies)[2]) if copies else None


def _has_weights(folder: Path) -> bool:
    return (folder / "config.json").exists() and any(folder.glob("model*.safetensors"))


def _conversion(hub: Any, name: str) -> str | None:
    """Reference of the pull request with the model's safetensors, if there is one."""
    for discussion in hub.get_repo_discussions(name, author=_CONVERTER, discussion_type="pull_request"):
        if (discussion.title, discussion.author) == (_CONVERSION, _CONVERTER) and discussion.is_pull_request:
            return str(discussion.git_reference)
    return None
