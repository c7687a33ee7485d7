"""What vision and text encoders share: reading configurations and weights of models in Hugging Face format."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from momentalign._extras import require

CONFIG_FILE = "config.json"
_NOT_ARCHITECTURE = ("_name_or_path", "auto_map", "architectures", "id2label", "label2id", "dtype", "torch_dtype")
"""Where it came from, code that is never run, another task's classes, and the precision, which is ours to choose."""


def transformers() -> Any:
    """The library, or the command that installs it."""
    return require("transformers", "Hugging Face encoders need", extra="train")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the library's reports and progress bars from the screen; what matters in them is raised as an error."""
    logging = transformers().utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Args:
        path: The file.

    Returns:
        The object.

    Raises:
        ValueError: No such object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} should be JSON, but cannot be read: {error}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} should be a JSON object, but is a {type(content).__name__}.")
    return content


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object to a file."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_architecture(folder: Path) -> Any:
    """Configuration of the model in a folder.

    Args:
        folder: With a `config.json`.

    Returns:
        The library's configuration object.

    Raises:
        ValueError: Not in Hugging Face format, or a model that the library does not know.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise ValueError(f"{folder} should be a model in Hugging Face format, but has no {CONFIG_FILE}.")
    return architecture_from_dict(read_json(path), str(path))


def architecture_from_dict(values: Mapping[str, Any], source: str) -> Any:
    """Configuration of a model from its values.

    Args:
        values: As in a `config.json`.
        source: Where they come from, for messages.

    Returns:
        The library's configuration object.

    Raises:
        ValueError: A model that the library does not know, or values that it refuses.
    """
    library = transformers()
    kind = values.get("model_type")
    if kind is None:
        raise ValueError(f"{source} should name a 'model_type', as models in Hugging Face format do, but does not.")
    settings = {name: value for name, value in values.items() if name not in (*_NOT_ARCHITECTURE, "model_type")}
    try:
        with quiet():
            return library.AutoConfig.for_model(kind, **settings)
    except (ValueError, TypeError) as error:
        reason = str(error).strip().partition("\n")[0]
        if reason.startswith("Unrecognized model identifier"):
            reason = (
                f"transformers {library.__version__} has no model of type '{kind}', and code from the hub is not run"
            )
        raise ValueError(f"{source}: {reason}.") from None


def architecture_to_dict(architecture: Any) -> dict[str, Any]:
    """Values of a configuration, without what does not belong to the architecture."""
    return {
        name: value
        for name, value in json.loads(architecture.to_json_string(use_diff=False)).items()
        if name not in _NOT_ARCHITECTURE
    }


def load_pretrained(model_class: Any, folder: Path, architecture: Any, **settings: Any) -> tuple[Any, frozenset[str]]:
    """Load a model's weights in single precision.

    Only safetensors are read, which hold numbers and nothing else.

    Args:
        model_class: A class of the library with `from_pretrained`.
        folder: With a `model.safetensors`, or its parts and their index.
        architecture: The model's configuration.
        **settings: More arguments of the model's class.

    Returns:
        The model, and the names of those weights that the file does not have.

    Raises:
        ValueError: No such file, or one of another architecture.
    """
    if not any((folder / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json")):
        pickled = " Weights in pytorch_model.bin can run code and are not read." if any(folder.glob("*.bin")) else ""
        raise ValueError(f"{folder} should have weights in model.safetensors, but has none.{pickled}")
    from safetensors import SafetensorError

    try:
        with quiet():
            model, report = model_class.from_pretrained(
                str(folder),
                config=architecture,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                **settings,
            )
    except (RuntimeError, SafetensorError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"The weights in {folder} do not fit its {CONFIG_FILE}: {reason}") from None
    return model.float(), frozenset(report["missing_keys"])


def check_complete(folder: Path, missing: frozenset[str]) -> None:
    """Refuse weights that would leave part of an encoder random."""
    if missing:
        shown = ", ".join(sorted(missing)[:5]) + (", …" if len(missing) > 5 else "")
        raise ValueError(
            f"The weights in {folder} should fill the whole encoder, but {len(missing)} are missing: {shown}. "
            f"Use hf-config:{folder} for random weights."
        )
