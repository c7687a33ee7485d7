"""The four sets, as arrays with a domain for every row, and what prepares them; real files, read as they are."""

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
"""Rows of each Beijing station, drawn with the seed: an eleventh of them, so that all cells take seconds."""


class Rows(NamedTuple):
    """Features (n, d), targets and domains (n,)."""

    features: NDArray[np.float64]
    targets: NDArray[Any]
    domains: NDArray[np.str_]


class EvidenceSet(NamedTuple):
    """How a set is read, prepared (fitted on training rows) and scored."""

    title: str
    read: Callable[[Path], Rows]
    prepare: Callable[[], Pipeline]
    regression: bool = False


def read_heart(root: Path) -> Rows:
    """Four hospitals; 13 columns as numbers, missing values as NaN; whether there is disease."""
    import pandas as pd

    folder = root / "heart-disease"
    tables = [pd.read_csv(folder / f"processed.{name}.data", header=None, na_values="?") for name in HOSPITALS]
    rows = pd.concat(tables)
    hospitals = np.repeat(HOSPITALS, [len(table) for table in tables])
    return Rows(rows.iloc[:, :13].to_numpy(float), (rows.iloc[:, 13] > 0).to_numpy().astype(np.int64), hospitals)


def read_common(root: Path) -> Rows:
    """The ten columns of heart disease that all four hospitals recorded for most patients."""
    rows = read_heart(root)
    return rows._replace(features=rows.features[:, :10])  # the last three are slope, ca and thal


def read_npz(path: Path) -> Rows:
    """Features from an archive with X, y, domain and the domains' names."""
    with np.load(path, allow_pickle=False) as archive:
        names = archive["domains"][archive["domain"]]
        return Rows(archive["X"].astype(np.float64), archive["y"].astype(np.int64), names)


def read_air(root: Path) -> Rows:
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
    return Rows(
        np.column_stack([numbers, *circles, wind]), table["PM2.5"].to_numpy(float), table["station"].to_numpy(str)
    )


SETS = {
    "heart": EvidenceSet(
        "Heart disease, missing values marked",
        read_heart,
        lambda: make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
    ),
    "heart-unmarked": EvidenceSet(
        "Heart disease, missing values not marked", read_heart, lambda: make_pipeline(SimpleImputer(), StandardScaler())
    ),
    "heart-common": EvidenceSet(
        "Heart disease, columns that all hospitals recorded",
        read_common,
        lambda: make_pipeline(SimpleImputer(), StandardScaler()),
    ),
    "pacs": EvidenceSet(
        "PACS features",
        lambda root: read_npz(root / "pacs" / "PACS_efficientnet_lite0_1280d_fp16.npz"),
        lambda: make_pipeline(StandardScaler(), PCA(100, random_state=0)),
    ),
    "amazon": EvidenceSet(
        "Amazon reviews",
        lambda root: read_npz(root / "amazon-reviews" / "amazon_minilm_384d_fp16.npz"),
        lambda: make_pipeline(StandardScaler()),
    ),
    "beijing": EvidenceSet(
        "Beijing air", read_air, lambda: make_pipeline(SimpleImputer(), StandardScaler()), regression=True
    ),
}


@cache
def read_set(name: str, root: Path) -> Rows:
    """Read a set once a process.

    Args:
        name: Key of :data:`SETS`.
        root: Folder of the data.

    Returns:
        All rows.
    """
    return SETS[name].read(root)


def draw_rows(name: str, domains: NDArray[np.str_], seed: int, share: float = 0.8) -> tuple[NDArray[np.bool_], ...]:
    """The rows that a seed trains on and those that it tests on, by domain the same whichever is left out.

    Args:
        name: Key of :data:`SETS`.
        domains: Of all rows, (n,).
        seed: Of the draw.
        share: Of a domain's rows that are trained on when it is not the one left out.

    Returns:
        Two masks (n,): training rows, test rows (all of them, but for Beijing's `STATION_ROWS` a station).
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
