"""Names in print, and their order."""

from pathlib import PurePath

_ALGORITHMS = {
    "erm": "ERM",
    "erm-balanced": "ERM, balanced",
    "irm": "IRM",
    "vrex": "VREx",
    "groupdro": "GroupDRO",
    "mmd": "MMD",
    "coral": "CORAL",
    "fishr": "Fishr",
    "fish": "Fish",
    "iga": "IGA",
    "andmask": "AND-Mask",
    "dann": "DANN",
    "cdann": "CDANN",
    "selfreg": "SelfReg",
    "hgp": "HGP",
    "hutchinson": "Hutchinson",
    "gradient-matching": "Gradient matching",
    "hessian-matching": "Hessian matching",
    "moment-alignment": "Moment alignment",
    "cma": "CMA",
    "cma-momentum": "CMA, momentum",
}
_DATASETS = (
    "colored-digits",
    "rotated-digits",
    "colored-mnist",
    "rotated-mnist",
    "vlcs",
    "pacs",
    "office-home",
    "terra-incognita",
    "domain-net",
    "waterbirds",
    "celeba",
    "multinli",
)
# Column heads as the field prints them; other data sets show their domains' names in full.
_HEADS = {
    "vlcs": {"Caltech101": "C", "LabelMe": "L", "SUN09": "S", "VOC2007": "V"},
    "pacs": {"art_painting": "A", "cartoon": "C", "photo": "P", "sketch": "S"},
    "office-home": {"Art": "A", "Clipart": "C", "Product": "P", "Real World": "R"},
    "terra-incognita": {"location_100": "L100", "location_38": "L38", "location_43": "L43", "location_46": "L46"},
}


def algorithm_label(name: str) -> str:
    """An algorithm's name in print; names that are not ours stay as they are."""
    return _ALGORITHMS.get(name, name)


def algorithm_order(name: str) -> tuple[int, str]:
    """Sorting key: ours from the plainest on, then others by name."""
    known = list(_ALGORITHMS)
    return (known.index(name) if name in known else len(known), name)


def dataset_order(name: str) -> tuple[int, str]:
    """Sorting key: digits, images, group sets, then others by name."""
    return (_DATASETS.index(name) if name in _DATASETS else len(_DATASETS), name)


def dataset_label(name: str) -> str:
    """What a data set is called in print: of a path, which is absolute, its last part without its ending."""
    path = PurePath(name)
    return path.name.partition(".")[0] or name if path.is_absolute() else name


def domain_head(dataset: str, domain: str) -> str:
    """What stands above a domain's column."""
    return _HEADS.get(dataset, {}).get(domain, domain)
