"""Names of tables with options for reading them: `sites.csv?target=outcome&domain=hospital&sep=;`.

They are accepted wherever a data set's name is: on the command line, in a run's configuration, in a sweep.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

TABLE_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".npz")
TABLE_OPTIONS = ("target", "domain", "group", "split", "sep", "encoding")
"""Options after the "?": arguments of :func:`momentalign.tables.read_table`."""
_DEFAULTS = {"target": "y", "domain": "domain"}
_RESERVED = re.compile(r"[%&?\x00-\x1f\x7f]")


def is_table(path: str | Path) -> bool:
    """Whether a path is that of a table, by its suffix."""
    return str(path).lower().endswith(TABLE_SUFFIXES)


def is_tsv(path: str | Path) -> bool:
    """Whether the columns of a table are separated by tabs, by its suffix."""
    return str(path).lower().endswith((".tsv", ".tsv.gz"))


def table_spec(
    path: str | Path,
    *,
    target: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    split: str | None = None,
    sep: str | None = None,
    encoding: str | None = None,
) -> str:
    """Name a table with options for reading it, for use as a data set.

    Args:
        path: Path of a table, or such a name, whose options are kept.
        target: Column of the labels; `y` if not given.
        domain: Column of the domains; `domain` if not given.
        group: Column of the groups; `group` if not given and there is one.
        split: Column of the splits; `split` if not given and there is one.
        sep: Separator of a CSV file, one character or `tab`; a tab for .tsv and a comma otherwise if not given.
        encoding: Of a CSV file; UTF-8 if not given.

    Returns:
        A name for :func:`momentalign.data.load_dataset`, `make_config` and so on.

    Raises:
        ValueError: An option for something that is not a table, or other than that of the name.

    Example:
        >>> table_spec("sites.csv", target="outcome", domain="hospital", sep="tab")
        'sites.csv?target=outcome&domain=hospital&sep=tab'
    """
    values = (target, domain, group, split, sep, encoding)
    given = {name: value for name, value in zip(TABLE_OPTIONS, values, strict=True) if value is not None}
    for name, own in split_spec(str(path))[1].items():
        if given.get(name, own) != own:
            raise ValueError(f"'--{name}' is '{given[name]}', but '{path}' says '{own}'. Omit one of them.")
    return fill_spec(str(path), given)


def fill_spec(spec: str, options: Mapping[str, str]) -> str:
    """Add options to a name where it does not have them."""
    path, own = split_spec(spec)
    if options and not is_table(path):
        if (file := Path(path).expanduser()).is_file():
            raise ValueError(
                f"{path} should be a table ({', '.join(TABLE_SUFFIXES)}), but is '{file.suffix}'. Save it as CSV."
            )
        raise ValueError(
            f"'--{next(iter(options))}' is for tables ({', '.join(TABLE_SUFFIXES)}), but {path} is none. Omit it."
        )
    merged = {**options, **own}
    named = [name for name in TABLE_OPTIONS if name in merged and merged[name] != _DEFAULTS.get(name)]
    quoted = [f"{name}={_RESERVED.sub(lambda found: quote(found[0], safe=''), merged[name])}" for name in named]
    return f"{path}?{'&'.join(quoted)}" if quoted else path


def inherit_spec(spec: str, options: Mapping[str, str]) -> str:
    """Add the options of another table to a name where it does not have them, as far as they fit its suffix."""
    path = spec_path(spec)
    if not is_table(path):
        return spec
    unfit = {"sep", "encoding"} if path.lower().endswith((".parquet", ".npz")) else {"sep"} if is_tsv(path) else set()
    return fill_spec(spec, {option: value for option, value in options.items() if option not in unfit})


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Path, or name of a data set that is not a table, and the options by name.

    Example:
        >>> split_spec("sites.csv?target=outcome&sep=;")
        ('sites.csv', {'target': 'outcome', 'sep': ';'})
    """
    path = spec_path(spec)
    options: dict[str, str] = {}
    for pair in spec[len(path) + 1 :].split("&") if len(path) < len(spec) else ():
        name, equals, value = pair.partition("=")
        if name not in TABLE_OPTIONS or not equals or not value or name in options:
            raise ValueError(
                f"A table should have {', '.join(TABLE_OPTIONS)} after '?', once each, as in "
                f"'{path}?target=outcome&domain=site', but has '{pair}'."
            )
        options[name] = unquote(value)
    return path, options


def spec_path(spec: str) -> str:
    """A name without options."""
    path, mark, _ = spec.rpartition("?")
    return path if mark and is_table(path) else spec


def resolve_spec(spec: str) -> str:
    """Make the path of a name absolute if the file or folder exists."""
    path, options = split_spec(spec)
    file = Path(path).expanduser()
    return fill_spec(str(file.resolve()) if file.exists() else path, options)
