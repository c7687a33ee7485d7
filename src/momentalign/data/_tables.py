"""Tables of rows with a label and a domain, from CSV, parquet and npz files."""

import difflib
import importlib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SUFFIXES = (".csv", ".csv.gz", ".parquet", ".npz")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a table, those without label or domain left out.

    Args:
        features: Data frame of the remaining columns, (n, columns).
        target: Labels, shape (n,).
        domains: Names of the domains, shape (n,).
        notes: What was done to the rows on the way, a sentence each.
    """

    features: Any
    target: NDArray[Any]
    domains: NDArray[np.str_]
    notes: tuple[str, ...]


def read_table(path: str | Path, *, target: str = "y", domain: str = "domain") -> Table:
    """Read a table with a column for the label and one for the domain; all other columns are features.

    In an npz file the two are arrays of these names beside a matrix `X`; where domains are indices and an array
    `{domain}s` holds names, the names are taken.

    Args:
        path: A .csv, .csv.gz, .parquet or .npz file.
        target: Column of the labels.
        domain: Column that says where a row came from.

    Returns:
        The table.

    Raises:
        ValueError: Not such a file, no such column, or no rows left.
        FileNotFoundError: No such file.
    """
    pandas = _pandas()
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    if not path.name.endswith(_SUFFIXES):
        raise ValueError(f"{path.name} should be a {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]} file.")
    frame = _npz_frame(pandas, path, target, domain) if path.suffix == ".npz" else _frame(pandas, path)
    for option, name in (("target", target), ("domain", domain)):
        if name not in frame.columns:
            raise ValueError(_no_such_column(option, name, [str(column) for column in frame.columns], path))
    if target == domain:
        raise ValueError(f"'target' and 'domain' should be two columns, but are both '{target}'.")
    notes = []
    known = frame[target].notna() & frame[domain].notna()
    if not known.all():
        notes.append(f"{int((~known).sum())} rows without '{target}' or '{domain}' were left out.")
        frame = frame[known]
    if not len(frame):
        raise ValueError(f"{path.name} should have rows with '{target}' and '{domain}', but has none.")
    features = frame.drop(columns=[target, domain])
    if features.shape[1] == 0:
        raise ValueError(f"{path.name} should have columns besides '{target}' and '{domain}', but has none.")
    names = frame[domain].astype(str).to_numpy(dtype=np.str_)
    return Table(features.reset_index(drop=True), frame[target].to_numpy(), names, tuple(notes))


def feature_matrix(features: Any, *, components: int | None = None) -> tuple[NDArray[np.float64], list[str]]:
    """Numbers from columns, the scikit-learn way: medians for what is missing, one column a category, unit variance.

    Args:
        features: Data frame of n rows.
        components: Principal components to keep of what results, where there are more columns.

    Returns:
        The matrix (n, d), and what was done, a sentence each.
    """
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.decomposition import PCA
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    notes = []
    empty = [str(column) for column in features.columns[features.isna().all()]]
    if empty:
        notes.append(f"Columns without any value were left out: {', '.join(empty)}.")
        features = features.drop(columns=empty)
    numeric = make_column_selector(dtype_include="number")
    categorical = make_column_selector(dtype_exclude="number")
    missing = features.isna().sum()
    if missing.any():
        listed = ", ".join(f"{column} ({count})" for column, count in missing[missing > 0].items())
        notes.append(
            f"Missing values were filled, numbers with the median, the rest as a category of their own: {listed}."
        )
    if categories := [str(column) for column in categorical(features)]:
        notes.append(f"Taken as categories, a column each: {', '.join(categories)}.")
    encode = make_pipeline(SimpleImputer(strategy="constant", fill_value="missing"), OneHotEncoder(sparse_output=False))
    columns = make_column_transformer((SimpleImputer(strategy="median"), numeric), (encode, categorical))
    text = features.astype(dict.fromkeys(categorical(features), object))
    text = text.mask(text.isna(), None) if categories else text
    matrix = np.asarray(columns.fit_transform(text), dtype=np.float64)
    varying = VarianceThreshold().fit(matrix).get_support() if len(matrix) > 1 else np.ones(matrix.shape[1], bool)
    if not varying.all():
        notes.append(f"{int((~varying).sum())} constant columns were left out.")
        matrix = matrix[:, varying]
    matrix = StandardScaler().fit_transform(matrix)
    if components is not None and matrix.shape[1] > components:
        pca = PCA(components, random_state=0).fit(matrix)
        notes.append(
            f"{matrix.shape[1]} columns were reduced to {components} principal components, which hold "
            f"{100 * pca.explained_variance_ratio_.sum():.0f} % of the variance."
        )
        matrix = StandardScaler().fit_transform(pca.transform(matrix))
    return np.asarray(matrix, dtype=np.float64), notes


def _frame(pandas: Any, path: Path) -> Any:
    try:
        return pandas.read_parquet(path) if path.suffix == ".parquet" else pandas.read_csv(path)
    except (ValueError, OSError) as error:  # what pandas and pyarrow raise for files that are something else
        raise ValueError(f"{path.name} could not be read: {str(error).strip()}") from None


def _npz_frame(pandas: Any, path: Path, target: str, domain: str) -> Any:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path.name} could not be read: it is no npz archive.")
    with np.load(path, allow_pickle=False) as arrays:
        if "X" not in arrays or arrays["X"].ndim != 2:
            raise ValueError(f"{path.name} should have a matrix 'X', but has {', '.join(arrays.files) or 'nothing'}.")
        X = arrays["X"].astype(np.float64)
        columns = {f"x{k}": X[:, k] for k in range(X.shape[1])}
        for name in (target, domain):
            if name not in arrays:
                raise ValueError(_no_such_column("target" if name == target else "domain", name, arrays.files, path))
            if arrays[name].shape != (len(X),):
                raise ValueError(
                    f"'{name}' should have one entry per row of 'X' ({len(X)}), but has shape {arrays[name].shape}."
                )
            columns[name] = arrays[name]
        if f"{domain}s" in arrays and np.issubdtype(columns[domain].dtype, np.integer):
            columns[domain] = arrays[f"{domain}s"][columns[domain]]
    return pandas.DataFrame(columns)


def _no_such_column(option: str, name: str, found: list[str], path: Path) -> str:
    near = difflib.get_close_matches(name, found, 1)
    shown = ", ".join(found[:12]) + (", …" if len(found) > 12 else "")
    hint = f" Meant '{near[0]}'?" if near else ""
    return f"'{option}' should name a column of {path.name}, but is '{name}'. Found: {shown}.{hint}"


def _pandas() -> Any:
    try:
        return importlib.import_module("pandas")
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Tables need pandas, which is not installed. Use pip install 'momentalign[cli]'."
        ) from None
