"""Data sets of the study: a data frame with a domain for every row, and the preprocessing all of them share."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.estimators.fresh import SOURCES, Source, missing_as_nan, read_source

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
STATION_ROWS = 1000
"""Rows drawn from each Beijing station, a thirtieth of them, so that a cell takes seconds."""
PACS_COMPONENTS = 100
OUTER_FOLDS = 10
"""At most this many folds of domains are left out in turn."""
PARTS = ("settle", "confirm", "fresh")
"""What sets are for: to settle a rule, to confirm it, and to confirm it once more on sets that no rule was tried on."""

_HEART = [
    "age",
    "sex",
    "cp",
    "trestbps",
    "chol",
    "fbs",
    "restecg",
    "thalach",
    "exang",
    "oldpeak",
    "slope",
    "ca",
    "thal",
]
_HEART_CATEGORIES = ["cp", "restecg", "slope", "thal"]


class DomainRows(NamedTuple):
    """A data frame of features (n, d), targets and domains (n,)."""

    features: Any
    targets: NDArray[Any]
    domains: NDArray[np.str_]


class StudySet(NamedTuple):
    """How a set is read and scored; `components` of a PCA follow the preprocessing where they are given."""

    title: str
    read: Callable[[Path], DomainRows]
    regression: bool = False
    components: int | None = None


def read_heart(root: Path) -> DomainRows:
    """Four hospitals; 13 columns, four of them categories; whether there is disease."""
    import pandas as pd

    folder = root / "heart-disease"
    tables = [
        pd.read_csv(folder / f"processed.{name}.data", header=None, names=[*_HEART, "num"], na_values="?")
        for name in HOSPITALS
    ]
    rows = pd.concat(tables, ignore_index=True)
    for name in _HEART_CATEGORIES:
        rows[name] = rows[name].map("{:g}".format, na_action="ignore").astype(object)
    hospitals = np.repeat(HOSPITALS, [len(table) for table in tables])
    return DomainRows(rows[_HEART], np.where(rows["num"] > 0, "disease", "none"), hospitals)


def read_npz(path: Path) -> DomainRows:
    """Features from an archive with X, y, domain and the domains' names."""
    import pandas as pd

    with np.load(path, allow_pickle=False) as archive:
        names = archive["domains"][archive["domain"]]
        return DomainRows(pd.DataFrame(archive["X"].astype(np.float64)), archive["y"].astype(np.int64), names)


def read_air(root: Path) -> DomainRows:
    """Twelve stations: the other pollutants, weather, month and hour as angles, wind direction; PM2.5."""
    import pandas as pd

    paths = sorted((root / "beijing-air").glob("PRSA_Data_*.csv.gz"))
    if not paths:
        raise FileNotFoundError(f"No PRSA_Data_*.csv.gz in {root / 'beijing-air'}.")
    table = pd.concat([pd.read_csv(path) for path in paths])
    table = table[table["PM2.5"].notna()]
    table = table.groupby("station").sample(STATION_ROWS, random_state=0).reset_index(drop=True)
    columns = table[["PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "WSPM", "wd"]].copy()
    for name, period in (("month", 12), ("hour", 24)):
        angle = 2 * np.pi * table[name] / period
        columns[f"{name} sine"], columns[f"{name} cosine"] = np.sin(angle), np.cos(angle)
    return DomainRows(columns, table["PM2.5"].to_numpy(float), table["station"].to_numpy(str))


def read_parquet(path: Path) -> DomainRows:
    """A table with columns `target` and `domain`; `group` holds the target and is left out."""
    import pandas as pd

    table = pd.read_parquet(path)
    return DomainRows(feature_columns(table), table["target"].to_numpy(), table["domain"].to_numpy(str))


def feature_columns(table: Any) -> Any:
    """Data frame of a table's features, an `attribute` among them; `target`, `domain` and `group` are not."""
    return missing_as_nan(table.drop(columns=["target", "domain", "group"], errors="ignore"))


def _parquet(name: str, title: str, *, regression: bool = False) -> StudySet:
    return StudySet(title, lambda root: read_parquet(root / "tables" / f"{name}.parquet"), regression)


def _fresh(source: Source) -> StudySet:
    return StudySet(source.title, lambda root: DomainRows(*read_source(source)), source.regression)


def _archive(path: str, title: str, components: int | None = None) -> StudySet:
    return StudySet(title, lambda root: read_npz(root / path), components=components)


SETS = {
    "amazon-reviews": _archive("amazon-reviews/amazon_minilm_384d_fp16.npz", "Reviews: four kinds of product"),
    "cannabis-country": _parquet("cannabis-country", "Cannabis in the last year: four countries"),
    "diabetes-readmission": _parquet("diabetes-readmission", "Readmission: six admission sources"),
    "heart-disease": StudySet("Heart disease: four hospitals", read_heart),
    "law-school-bar": _parquet("law-school-bar", "Passing the bar: six tiers of law schools"),
    "pacs": _archive("pacs/PACS_efficientnet_lite0_1280d_fp16.npz", "PACS features: four styles", PACS_COMPONENTS),
    "penguin-sex": _parquet("penguin-sex", "Sex of penguins: three species"),
    "rand-doctor-visit": _parquet("rand-doctor-visit", "Any doctor visit: six sites"),
    "rodent-genus": _parquet("rodent-genus", "Genus of rodents: five types of plot"),
    "wisdm-activity": _parquet("wisdm-activity", "Activity by phone: 36 users"),
    "auto-mpg": _parquet("auto-mpg", "Miles per gallon: three origins", regression=True),
    "beijing-air": StudySet("PM2.5 in Beijing: twelve stations", read_air, regression=True),
    "chemistry-alevel": _parquet("chemistry-alevel", "A-level chemistry: 20 authorities", regression=True),
    "cps-wage": _parquet("cps-wage", "Log wage: four regions", regression=True),
    "developer-salary": _parquet("developer-salary", "Log salary of developers: five countries", regression=True),
    "parkinsons-updrs": _parquet("parkinsons-updrs", "Parkinson score: 42 patients", regression=True),
    "seoul-bikes": _parquet("seoul-bikes", "Rented bicycles: four seasons", regression=True),
    **{name: _fresh(source) for name, source in SOURCES.items()},
}


def part_of(name: str) -> str:
    """What a set is for: sets of a kind in alphabetical order, in turn to settle and to confirm; or fresh."""
    if name in SOURCES:
        return "fresh"
    kind = sorted(other for other in SETS.keys() - SOURCES.keys() if SETS[other].regression == SETS[name].regression)
    return PARTS[kind.index(name) % 2]


def parse_sets(text: str) -> list[str]:
    """Names of sets from an option, separated by commas."""
    names = text.split(",")
    if unknown := [name for name in names if name not in SETS]:
        raise ArgumentTypeError(f"should name some of {', '.join(SETS)}, but has {', '.join(unknown)}.")
    return names


@cache
def read_set(name: str, root: Path) -> DomainRows:
    """Read all rows of a set, once per process."""
    return SETS[name].read(root)


def prepare(name: str) -> Pipeline:
    """Preprocessing of a set, to be fitted on training rows."""
    components = SETS[name].components
    columns = prepare_columns()
    return columns if components is None else make_pipeline(columns, PCA(components, random_state=0))


def prepare_columns() -> Pipeline:
    """Preprocessing of a data frame, to be fitted on training rows.

    Numbers: median, standardised. Text: missing values as a category of their own, one column of 0 and 1 a category.
    """
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
    )
    return make_pipeline(
        make_column_transformer(
            (numbers, make_column_selector(dtype_include="number")),
            (texts, make_column_selector(dtype_exclude="number")),
        )
    )
