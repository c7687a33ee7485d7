"""Kinds of recipes: what a table or figure of the paper takes, at its own size or at one that shows that it works."""

from dataclasses import dataclass, replace

VIT_SMALL = "hf:timm/vit_small_patch16_224.augreg_in21k"
CLIP = "hf:openai/clip-vit-base-patch32"
BERT = "hf:bert-base-uncased"

DOMAINS = {
    "colored-digits": 3,
    "rotated-digits": 6,
    "colored-mnist": 3,
    "rotated-mnist": 6,
    "vlcs": 4,
    "pacs": 4,
    "terra-incognita": 4,
}
_FOUR = ("erm", "coral", "fishr", "cma")
_STAND_INS = {"colored-mnist": "colored-digits", "rotated-mnist": "rotated-digits"}
_IN_THE_PAPER = ("erm", "coral", "fishr", "hgp", "cma")


@dataclass(frozen=True)
class SweepRecipe:
    """Fine-tuning by the DomainBed protocol.

    Args:
        name: On the command line.
        what: Which table or figure it gives.
        datasets: Names of the data sets.
        algorithms: Names of the algorithms.
        rules: Selection rules that its tables are for.
        trials: Number of trials.
        hparams: Sets of hyper-parameters, the defaults first.
        steps: Length of a run; None is the protocol's.
        figure: Chapter of the report page that is the paper's figure, or empty for a table.
        scale: "full" is the paper's; "small" shows that it works.
    """

    name: str
    what: str
    datasets: tuple[str, ...]
    algorithms: tuple[str, ...] = _FOUR
    rules: tuple[str, ...] = ("oracle", "training-domain")
    trials: int = 3
    hparams: int = 5
    steps: int | None = None
    figure: str = ""
    scale: str = "full"

    @property
    def runs(self) -> int:
        """How many runs it takes: one for each test domain, algorithm, set and trial."""
        return sum(DOMAINS[name] for name in self.datasets) * len(self.algorithms) * self.hparams * self.trials

    def encoder(self, dataset: str) -> str | None:
        """The paper's encoder for a data set; None is the data set's own small network."""
        return None if "mnist" in dataset or "digits" in dataset else VIT_SMALL

    def small(self) -> "SweepRecipe":
        """The same at a size that shows that it works: 300 steps, digits that need no download in place of MNIST."""
        names = tuple(_STAND_INS.get(name, name) for name in self.datasets)
        sets = min(2, self.hparams)
        return replace(self, datasets=names, trials=1, hparams=sets, steps=300, scale="small")


@dataclass(frozen=True)
class ProbeRecipe:
    """Linear probing of data sets with groups.

    Args:
        name: On the command line.
        what: Which table or figure it gives.
        datasets: Names of the data sets.
        methods: Names of the methods.
        seeds: Seeds of the best sets; and of the figure.
        figure: Whether it is the figure of one setting over steps, with the published best weights.
        rows: Most rows of each group and split to compute features of; None takes all.
        steps: Most steps of fine-tuning an encoder before it computes features; None is three epochs.
        scale: "full" is the paper's; "small" shows that it works.
    """

    name: str
    what: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...] = _IN_THE_PAPER
    seeds: int = 5
    figure: bool = False
    rows: int | None = None
    steps: int | None = None
    scale: str = "full"

    def encoder(self, dataset: str) -> str:
        """The paper's encoder for a data set, before it is fine-tuned."""
        return BERT if dataset == "multinli" else CLIP

    def small(self) -> "ProbeRecipe":
        """The same with two seeds, a hundred rows of each group and split, and 300 steps to fine-tune an encoder."""
        return replace(self, seeds=2, rows=100, steps=300, scale="small")


@dataclass(frozen=True)
class CostRecipe:
    """Time and memory of a training step.

    Args:
        name: On the command line.
        what: Which tables it gives.
        scale: "full" is the paper's; "small" leaves the images out.
    """

    name: str
    what: str
    scale: str = "full"

    def small(self) -> "CostRecipe":
        """The digit sets alone."""
        return replace(self, scale="small")


Recipe = SweepRecipe | ProbeRecipe | CostRecipe
