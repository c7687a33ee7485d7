from momentalign.penalties import Fishr
from momentalign.report._names import algorithm_label, algorithm_order, term_label, term_order


def test_labels_are_those_of_the_classes() -> None:
    assert term_label("gradient_variance") == Fishr.term_labels["gradient_variance"]
    assert (term_label("cross_entropy"), term_label("unknown")) == ("cross-entropy of the batches", "unknown")
    assert [algorithm_label(name) for name in ("andmask", "cma-relative", "cma+swad", "mine:Own", "mine:a+b")] == [
        "AND-Mask",
        "CMA, relative",
        "CMA + SWAD",
        "mine:Own",
        "mine:a+b",
    ]


def test_order_of_terms_and_algorithms() -> None:
    terms = ["unknown", "kept", "hessian", "cross_entropy", "gradient"]
    assert sorted(terms, key=term_order) == ["cross_entropy", "gradient", "hessian", "kept", "unknown"]
    names = ["other", "cma+sma", "cma", "erm-balanced", "erm+ema", "irm", "erm", "cma-relative"]
    assert sorted(names, key=algorithm_order) == [
        "erm",
        "erm+ema",
        "erm-balanced",
        "irm",
        "cma",
        "cma+sma",
        "cma-relative",
        "other",
    ]


def test_only_methods_of_the_package_have_variants() -> None:
    own, balanced = "erm-lab.rules:Own", "erm-balanced"
    assert sorted([own, "cma", balanced, "erm"], key=algorithm_order) == ["erm", balanced, "cma", own]
