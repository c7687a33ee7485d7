"""Differences between a recipe and the runs behind the published numbers, printed when it starts."""

from momentalign.reproduce._recipes import PaperRecipe, ProbingRecipe, SweepRecipe

_SWEEP = (
    "All algorithms of a trial see the same data, and all trials the same sets of hyper-parameters; there each run has "
    "its own.",
    "The encoder runs once a step; there CMA runs it twice, with two draws of dropout.",
)
_IMAGES = "Images are evaluated whole, normalised for their encoder; there on random crops, normalised otherwise."
_CMA = (
    "CMA aligns full Hessians and is annealed at 2500, or one of 500 to 4500 by the set's seed; the public code aligns "
    "their diagonals and is annealed at 0, or 10^U(2,4)."
)
_RELEASED_CMA = (
    "cma-diagonal is CMA as in the public code. Whether that or full Hessians made the published rows is not known."
)
_VREX = "VREx is annealed at 500 by default, as in DomainBed; in the public code at 0."
_SELFREG = "SelfReg's projection is trained; there it stays as initialised."

_PROBE = (
    "CORAL has no effect on fixed features and is the fit of balanced ERM. The published ERM weights domains equally: "
    "it is printed beside 'ERM, balanced'.",
    "Fishr has the learning rate of the other methods and averages training batches; there it has about 500 times that "
    "rate and averages batches of all splits.",
    "HGP's gradients are means over domains; there pooled gradients are compared with balanced ones.",
)
_FEATURES = (
    "Image features are by {}, as the paper says; the public code's are by a ViT-B/16 that was pretrained as CLIP and "
    "fine-tuned on ImageNet, at 384 pixels."
)
_RELEASED_FEATURES = (
    "{} is one of several public ViT-B/16 at 384 pixels of the kind that the public code uses: which one is not known."
)
_BERT = (
    "MultiNLI's features are by one fine-tuned BERT with its last weights; there by one for each seed, with its best "
    "weights by worst-group validation accuracy."
)
_UNITS = (
    "Annealing counts training steps; the published steps of Fishr and HGP count evaluation batches as well. The "
    "public grids of CMA also hold 0.1 (MultiNLI: 0)."
)


def differences(recipe: PaperRecipe) -> list[str]:
    """Differences between a recipe and the runs behind the published numbers, a sentence or two each."""
    if isinstance(recipe, SweepRecipe):
        return _sweep_differences(recipe)
    if isinstance(recipe, ProbingRecipe):
        return _probe_differences(recipe)
    return []


def _sweep_differences(recipe: SweepRecipe) -> list[str]:
    published = recipe.preset == "published"
    images = any(recipe.encoder(name) is not None for name in recipe.datasets)
    by_algorithm = {"cma": _CMA, "cma-diagonal": _RELEASED_CMA, "selfreg": _SELFREG}
    by_algorithm |= {"vrex": _VREX} if published else {}
    found = [by_algorithm[name] for name in recipe.algorithms if name in by_algorithm]
    return [*_SWEEP, *([_IMAGES] if images else []), *found]


def _probe_differences(recipe: ProbingRecipe) -> list[str]:
    published = recipe.preset == "published"
    images = [name for name in recipe.datasets if name != "multinli"]
    lines = list(_PROBE)
    if images:
        lines.append((_FEATURES if published else _RELEASED_FEATURES).format(recipe.encoder(images[0])))
    if published:
        lines += [_BERT] if "multinli" in recipe.datasets else []
        lines.append(_UNITS)
    return lines
