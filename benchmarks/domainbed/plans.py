"""The studies: which runs, the most informative first."""

from benchmarks.ablation.factors import ABLATION
from benchmarks.domainbed.study import COLOURED, MNIST_OPTIONS, Part, Study

_MAIN = ("cma-momentum", "erm", "cma", "fishr", "cma-diagonal", "vrex", "irm", "groupdro", "coral", "hgp")
_REST = (
    "mmd",
    "fish",
    "iga",
    "andmask",
    "dann",
    "cdann",
    "selfreg",
    "hutchinson",
    "gradient-matching",
    "hessian-matching",
)

_ROTATED = ("0", "15", "30", "45", "60", "75")
_PACS = ("art_painting", "cartoon", "photo", "sketch")


_DIGITS = ("erm", "cma-momentum", "fishr", "vrex", "irm", "cma", "coral", "hgp", "groupdro")
_SETTLING = [
    *[Part([name], 1, 10, ["-90%"], first_trial=10) for name in _DIGITS],
    *[
        Part([name], 1, 10, ["-90%"], overrides, first_trial=10)
        for name, overrides in (
            ("cma-momentum", {"lr": 3e-3}),
            ("cma-momentum", {"hessian_weight": 0.0}),
            ("cma-momentum", {"gradient_weight": 30.0, "hessian_weight": 3.0}),
            ("cma", {"gradient_weight": 100.0, "hessian_weight": 10.0}),
            ("vrex", {"weight": 30.0}),
        )
    ],
]


def _coloured(part: Part) -> Study:
    return Study("colored-mnist", COLOURED, "colored-mnist", [part], MNIST_OPTIONS)


STUDIES = {
    "colored-mnist": _coloured(Part(_MAIN, 5, 3)),
    "colored-mnist-20": _coloured(Part(("erm", "fishr", "cma", "cma-momentum"), 20, 3, ("-90%",))),
    "colored-mnist-rest": _coloured(Part(("erm", *_REST), 5, 1)),
    "rotated-mnist": Study(
        "rotated-mnist",
        _ROTATED,
        "rotated-mnist",
        [Part(("erm", "cma-momentum", "cma", "fishr", "coral"), 5, 1)],
        MNIST_OPTIONS,
    ),
    "colored-digits": Study("colored-digits", COLOURED, "colored-digits", [Part(_DIGITS, 1, 10)], {}),
    "colored-digits-settling": Study("colored-digits", COLOURED, "colored-digits", _SETTLING, {}),
    "ablation": ABLATION,
    "pacs": Study(
        "pacs",
        _PACS,
        "pacs",
        [Part(("erm", "cma-momentum", "cma", "fishr", "coral", "hgp"), 3, 3)],
        {"steps": 1001, "record_every": 50, "precision": "bf16", "average": "sma"},
        encoder="encoders/mobilenet_v2?size=112",
    ),
}
