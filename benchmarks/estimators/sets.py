"""Data sets of the study: arrays with a domain for every row, and their preprocessing."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
STATION_ROWS = 3000
"""Rows drawn from each Beijing station, an eleventh of them, so that a cell takes seconds."""


class DomainRows(NamedTuple):
    """Features (n, d), targets and domains (n,)."""

    features: NDArray[np.float64]
    targets: NDArray[Any]
    domains: NDArray[np.str_]


class StudySet(NamedTuple):
    """How a set is read, preprocessed (fitted on training rows) and scored."""

    title: str
    read: Callable[[Path], DomainRows]
    prepare: Callable[[], Pipeline]
    regression: bool = False


def read_heart(root: Path) -> DomainRows:
    """Four hospitals; 13 columns as numbers, missing values as NaN; whether there is disease."""
    import pandas as pd

    folder = root / "heart-disease"
    tables = [pd.read_csv(folder / f"processed.{name}.data", header=None, na_values="?") for name in HOSPITALS]
    rows = pd.concat(tables)
    hospitals = np.repeat(HOSPITALS, [len(table) for table in tables])
    return DomainRows(rows.iloc[:, :13].to_numpy(float), (rows.iloc[:, 13] > 0).to_numpy().astype(np.int64), hospitals)


def read_common(root: Path) -> DomainRows:
    """The ten columns of heart disease that all four hospitals recorded for most patients."""
    rows = read_heart(root)
    return rows._replace(features=rows.features[:, :10])  # the last three are slope, ca and thal


def read_npz(path: Path) -> DomainRows:
    """Features from an archive with X, y, domain and the domains' names."""
    with np.load(path, allow_pickle=False) as archive:
        names = archive["domains"][archive["domain"]]
        return DomainRows(archive["X"].astype(np.float64), archive["y"].astype(np.int64), names)


def read_air(root: Path) -> DomainRows:
    """Twelve stations: the other pollutants, weather, month and hour as angles, wind direction one-hot; PM2.5."""
    import pandas as pd

    paths = sorted((root / "beijing-air").glob("PRSA_Data_*.csv.gz"))
    if not paths:
        raise FileNotFoundError(f"No PRSA_Data_*.csv.gz in {root / 'beijing-air'}.")
    table = pd.concat([pd.read_csv(path) for path in paths])
    table = table[table["PM2.5"].notna()]
    numbers = table[["PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "RAIN", "WSPM"]].to_numpy(float)
    angles = [2 * np.pi * table[name].to_numpy(float) / period for name, period in (("month", 12), ("hour", 24))]
    circles = [wave(angle) for angle in angles for wave in (np.sin, np.cos)]
    wind = pd.get_dummies(table["wd"]).to_numpy(float)
    return DomainRows(
        np.column_stack([numbers, *circles, wind]), table["PM2.5"].to_numpy(float), table["station"].to_numpy(str)
    )


SETS = {
    "heart": StudySet(
        "Heart disease, missing values marked",
        read_heart,
        lambda: make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
    ),
    "heart-unmarked": StudySet(
        "Heart disease, missing values not marked", read_heart, lambda: make_pipeline(SimpleImputer(), StandardScaler())
    ),
    "heart-common": StudySet(
        "Heart disease, columns that all hospitals recorded",
        read_common,
        lambda: make_pipeline(SimpleImputer(), StandardScaler()),
    ),
    "pacs": StudySet(
        "PACS features",
        lambda root: read_npz(root / "pacs" / "PACS_efficientnet_lite0_1280d_fp16.npz"),
        lambda: make_pipeline(StandardScaler(), PCA(100, random_state=0)),
    ),
    "amazon": StudySet(
        "Amazon reviews",
        lambda root: read_npz(root / "amazon-reviews" / "amazon_minilm_384d_fp16.npz"),
        lambda: make_pipeline(StandardScaler()),
    ),
    "beijing": StudySet(
        "Beijing air", read_air, lambda: make_pipeline(SimpleImputer(), StandardScaler()), regression=True
    ),
}


@cache
def read_set(name: str, root: Path) -> DomainRows:
    """Read all rows of a set, once per process."""
    return SETS[name].read(root)


def draw_rows(name: str, domains: NDArray[np.str_], seed: int, share: float = 0.8) -> tuple[NDArray[np.bool_], ...]:
    """Masks (n,) of a seed's training and test rows; a domain's rows are the same whichever domain is left out.

    Training takes `share` of each domain; testing takes all rows, or `STATION_ROWS` per Beijing station.
    """
    rng = np.random.default_rng(seed)
    train, test = np.zeros(len(domains), dtype=bool), np.zeros(len(domains), dtype=bool)
    for domain in np.unique(domains):
        rows = rng.permutation(np.flatnonzero(domains == domain))
        if SETS[name].regression:
            rows = rows[:STATION_ROWS]
        test[rows] = True
        train[rows[: int(share * len(rows))]] = True
    return train, test
