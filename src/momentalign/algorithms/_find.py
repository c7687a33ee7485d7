"""From a name, or the import path of a user's own class, to an algorithm."""

import difflib
import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

from momentalign.algorithms._base import Algorithm
from momentalign.algorithms._catalogue import CATALOGUE
from momentalign.algorithms._specs import AlgorithmSpec, class_spec
from momentalign.penalties import DomainPenalty


def algorithm_names() -> tuple[str, ...]:
    """Names that :func:`find_algorithm` knows without an import path."""
    return tuple(CATALOGUE)


def find_algorithm(name: str) -> AlgorithmSpec:
    """Find an algorithm.

    Args:
        name: One of :func:`algorithm_names`, or `package.module:Name` (or `package.module.Name`), the import path of
            a :class:`DomainPenalty` or :class:`Algorithm`; modules of the current folder are found as well.

    Returns:
        How to build it and what to search.

    Raises:
        ValueError: There is no such algorithm.

    Example:
        >>> find_algorithm("cma").label
        'CMA'
        >>> find_algorithm("momentalign.penalties:CORAL").space("mnist", 5001)["weight"].default
        1.0
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    if ":" in name:
        return class_spec(name, name.rpartition(":")[2], _import_class(name))
    if "." in name:  # the other common way to write it
        return find_algorithm(":".join(name.rsplit(".", 1)))
    near = difflib.get_close_matches(name.lower(), CATALOGUE, 1)
    raise ValueError(
        f"There is no algorithm '{name}'. There are: {', '.join(CATALOGUE)}; one of your own is 'package.module:Name'."
        + (f" Meant '{near[0]}'?" if near else "")
    )


def _import_class(path: str) -> type[Algorithm] | type[DomainPenalty]:
    module_name, _, class_name = path.partition(":")
    if module_name.endswith(".py"):
        name = module_name.removesuffix(".py").replace("/", ".")
        raise ValueError(f"An import path names a module, not a file: write '{name}:{class_name}', not '{path}'.")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise ValueError(f"An import path should look like 'package.module:Name', but is '{path}'.")
    module = _import_module(path, module_name)
    found = getattr(module, class_name, None)
    if not isinstance(found, type) or not issubclass(found, (Algorithm, DomainPenalty)):
        what = "nothing of that name" if found is None else f"a {type(found).__name__} that is neither"
        raise ValueError(
            f"'{path}' should be a DomainPenalty or Algorithm class, but module '{module_name}' has {what}."
        )
    if inspect.isabstract(found):
        lacking = ", ".join(sorted(found.__abstractmethods__))
        raise ValueError(f"'{path}' should be a class one can make objects of, but it lacks {lacking}.")
    return found


def _import_module(path: str, name: str) -> ModuleType:
    """Import a module, also one that lies in the current folder, which an installed command does not look into."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise ValueError(
            f"'{path}' should be the import path of a class, but there is no module '{error.name}' here or installed."
        ) from None
    except SyntaxError as error:
        raise ValueError(f"'{path}' cannot be imported: {error.msg} ({error.filename}, line {error.lineno}).") from None
    finally:
        sys.path.remove(here)
