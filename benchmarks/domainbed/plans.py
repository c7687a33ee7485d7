"""The studies: which runs, the most informative first."""

from benchmarks.ablation.factors import ABLATION
from benchmarks.domainbed.study import MNIST_OPTIONS, Part, Study

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

STUDIES = {
    "colored-mnist": Study("colored-mnist", "colored-mnist", [Part(_MAIN, 5, 3)], MNIST_OPTIONS),
    "colored-mnist-20": Study(
        "colored-mnist",
        "colored-mnist",
        [Part(("erm", "fishr", "cma", "cma-momentum"), 20, 3, ("-90%",))],
        MNIST_OPTIONS,
    ),
    "colored-mnist-rest": Study("colored-mnist", "colored-mnist", [Part(_REST, 5, 1)], MNIST_OPTIONS),
    "rotated-mnist": Study(
        "rotated-mnist", "rotated-mnist", [Part(("erm", "cma-momentum", "cma", "fishr", "coral"), 5, 1)], MNIST_OPTIONS
    ),
    "ablation": ABLATION,
    "pacs": Study(
        "pacs",
        "pacs",
        [Part(("erm", "cma", "cma-momentum", "coral", "fishr"), 1, 3), Part(("cma",), 1, 3, preset="published")],
        {"steps": 1001, "record_every": 100, "average": "sma"},
        encoder="encoders/mobilenet_v2?size=112",
    ),
}
