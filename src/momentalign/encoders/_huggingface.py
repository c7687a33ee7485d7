"""Configurations and weights of models in Hugging Face format."""

import json
import reprlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from momentalign._errors import first_line
from momentalign._extras import require
from momentalign._format import join_first
from momentalign._json import read_json
from momentalign.encoders._base import Encoder, Preprocessing

CONFIG_FILE = "config.json"
_ADAPTER_FILE = "adapter_config.json"
_NOT_ARCHITECTURE = (
    "_name_or_path",
    "architectures",
    "id2label",
    "label2id",
    "dtype",
    "torch_dtype",
    "label_names",
    "num_classes",
)
"""Origin, classes of another task, and precision, which this package chooses."""
_LOADS_CODE: dict[str, tuple[Any, ...]] = {
    "auto_map": ({},),
    "trust_remote_code": (),
    "custom_pipelines": ({},),
    "attn_implementation": ("eager", "sdpa"),
    "experts_implementation": ("eager",),
    "use_kernels": (),
    "kernel_config": ({},),
    "quantization_config": ({},),
    "compression_config": ({},),
    "transformers_weights": (),
}
"""Fields of a configuration, without leading underscores, with which the library loads code, a kernel from the hub or
another file of weights, and the values of each that are harmless besides None and False."""


def transformers() -> Any:
    """Import transformers, or raise with the command that installs it."""
    return require("transformers", "Hugging Face encoders need", extra="train")


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence the library's log and progress bars; what matters in them is raised as an error."""
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


def read_config(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file."""
    try:
        content = read_json(path, nonfinite=True)
    except ValueError as error:
        raise ValueError(f"{path} should be JSON, but cannot be read: {error}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} should be a JSON object, but is a {type(content).__name__}.")
    return content


def read_architecture(folder: Path) -> Any:
    """Read the library's configuration object of the model in a folder."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise ValueError(f"{folder} should be a model in Hugging Face format, but has no {CONFIG_FILE}.")
    return architecture_from_dict(read_config(path), str(path))


def architecture_from_dict(values: Mapping[str, Any], source: str) -> Any:
    """Build the library's configuration object from the values of a `config.json`; errors name `source`."""
    library = transformers()
    kind = values.get("model_type", "timm_wrapper" if "architecture" in values else None)
    if kind is None:
        raise ValueError(f"{source} should name a 'model_type', as models in Hugging Face format do, but does not.")
    if kind == "timm_wrapper":
        require("timm", "Encoders in timm's format need", extra="timm")
    _check_no_code(values, source)
    settings = {name: value for name, value in values.items() if name not in (*_NOT_ARCHITECTURE, "model_type")}
    try:
        with quiet_transformers():
            return library.AutoConfig.for_model(kind, **settings)
    except (ValueError, TypeError) as error:
        reason = first_line(error)
        if reason.startswith("Unrecognized model identifier"):
            reason = (
                f"transformers {library.__version__} has no model of type '{kind}', and code from the hub is not run"
            )
        raise ValueError(f"{source}: {reason}.") from None


def _check_no_code(values: Mapping[str, Any], source: str) -> None:
    """Raise ValueError for a field, at any depth, that makes the library load code, kernels or other weights."""
    for name, value in values.items():
        plain = name.lstrip("_").removesuffix("_internal")
        if plain in _LOADS_CODE and value not in (None, False, *_LOADS_CODE[plain]):
            raise ValueError(
                f"{source} should describe a model that needs no other code, but sets '{name}' to "
                f"{reprlib.repr(value)}, and code from elsewhere is not run. Remove the field if the model works "
                "without it, or use another model."
            )
        nested = value if isinstance(value, list) else [value]
        for part in nested:
            if isinstance(part, Mapping):
                _check_no_code(part, source)


class HuggingFaceEncoder(Encoder):
    """A model of the library, of whose output the `features` are read."""

    model: Any
    features: str
    preprocessing_class: ClassVar[type[Preprocessing]]

    @staticmethod
    @abstractmethod
    def build(architecture: Any) -> Any:
        """Build the model with random weights."""

    def config(self) -> dict[str, Any]:
        architecture = json.loads(self.model.config.to_json_string(use_diff=False))
        return {
            "kind": self.kind,
            "source": self.source,
            "features": self.features,
            "num_features": self.num_features,
            "architecture": {name: value for name, value in architecture.items() if name not in _NOT_ARCHITECTURE},
            "preprocessing": self.preprocessing.config(),
            "transformers": transformers().__version__,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Build the same encoder with random weights."""
        model = cls.build(architecture_from_dict(config["architecture"], "The encoder's configuration"))
        settings = {name: config[name] for name in ("features", "source", "keep_statistics") if name in config}
        return cls(model, cls.preprocessing_class.from_config(config["preprocessing"]), **settings)


def random_model(build: Callable[..., Any], architecture: Any, **settings: Any) -> Any:
    """Build a model with random weights in single precision."""
    try:
        with quiet_transformers():
            return build(architecture, **settings).float()
    except (ValueError, RuntimeError, TypeError) as error:
        raise ValueError(f"Cannot build a model of type '{architecture.model_type}': {first_line(error)}") from None


def load_pretrained(model_class: Any, folder: Path, architecture: Any, **settings: Any) -> tuple[Any, frozenset[str]]:
    """Load a model in single precision, from safetensors only; also returns the names of weights that are missing."""
    if not any((folder / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json")):
        pickled = " Weights in pytorch_model.bin can run code and are not read." if any(folder.glob("*.bin")) else ""
        raise ValueError(f"{folder} should have weights in model.safetensors, but has none.{pickled}")
    if (folder / _ADAPTER_FILE).exists():  # names another model, which the library would load instead
        raise ValueError(
            f"{folder} should be a whole model, but has {_ADAPTER_FILE}. Merge the adapter into the model."
        )
    from safetensors import SafetensorError

    try:
        with quiet_transformers():
            model, report = model_class.from_pretrained(
                str(folder),
                config=architecture,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                **settings,
            )
    except (RuntimeError, SafetensorError, OSError) as error:
        raise ValueError(f"The weights in {folder} do not fit its {CONFIG_FILE}: {first_line(error)}") from None
    return model.float(), frozenset(report["missing_keys"])


def check_complete(folder: Path, missing: frozenset[str]) -> None:
    """Raise ValueError if weights are missing, which would leave part of the encoder random."""
    if missing:
        names = join_first(sorted(missing), 5)
        raise ValueError(
            f"The weights in {folder} should fill the whole encoder, but {len(missing)} are missing: {names}. "
            f"Use hf-config:{folder} for random weights."
        )
