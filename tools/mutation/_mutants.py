"""Mutants of a package: cosmic-ray's operators, less those that no test could or should notice."""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

from tools.mutation._rules import SkippedPlaces

EXCLUDED = ("*_kernels.py",)
"""Triton kernels: they run on a GPU or in Triton's interpreter."""

SWAPS = {
    "ReplaceBinaryOperator": "Add_Sub Sub_Add Mul_Div Mul_Add Div_Mul FloorDiv_Div FloorDiv_Mul Mod_FloorDiv Pow_Mul "
    "BitOr_BitAnd BitAnd_BitOr BitXor_BitAnd",
    "ReplaceComparisonOperator": "Eq_NotEq NotEq_Eq Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt "
    "Is_IsNot IsNot_Is",
    "ReplaceUnaryOperator": "Delete_USub Delete_Not Delete_Invert",
}
"""Of the families that replace one operator by another, the slips a person makes.

Most of the other pairs (``a + b`` to ``a >> b``) raise a TypeError on the spot and would only flatter the score.
"""

OPERATORS = tuple(
    [f"core/{family}_{pair}" for family, pairs in SWAPS.items() for pair in pairs.split()]
    + [
        name
        for name in operator_names()
        if not any(family in name for family in SWAPS) and "Variable" not in name  # those want arguments
    ]
)


@dataclass(frozen=True)
class Place:
    """A place of a module where an operator applies.

    Attributes:
        path: Module, relative to the project.
        line: Line of the change, from 1.
        operator: cosmic-ray's name of the change.
        occurrence: Index among the places of the module where the operator applies.
        key: Name that stays the same when the lines around it move.
    """

    path: str
    line: int
    operator: str
    occurrence: int
    key: str


@dataclass(frozen=True)
class Mutant:
    """A module with one change: the changed line before and after, without indentation, and the module's source."""

    place: Place
    original: str
    mutated: str
    code: str


def package_modules(project: Path, package: str) -> list[Path]:
    """Modules of a package that are mutated."""
    folder = project / "src" / "momentalign" / package
    return [path for path in sorted(folder.rglob("*.py")) if not any(path.match(name) for name in EXCLUDED)]


def package_places(project: Path, package: str) -> list[Place]:
    """Return all places of a package in the order in which they are sampled.

    Every line that can change comes once, in an order given by a hash, before any comes twice; which of its changes
    comes first is given by the hash too. So samples are in proportion to the lines, and a change of one line leaves
    the order of the others as it was.
    """
    lines: dict[tuple[str, int], list[Place]] = defaultdict(list)
    for path in package_modules(project, package):
        for place in _module_places(path.read_text(), str(path.relative_to(project))):
            lines[place.path, place.line].append(place)
    ranked = [(turn, place) for places in lines.values() for turn, place in enumerate(sorted(places, key=_rank))]
    return [place for _, place in sorted(ranked, key=lambda pair: (pair[0], _rank(pair[1])))]


def make_mutant(source: str, place: Place) -> Mutant | None:
    """Change a module's source in one place; None where that is no Python."""
    code = str(mutate_code(source, get_operator(place.operator)(), place.occurrence))
    try:
        compile(code, place.path, "exec")
    except SyntaxError:  # such as another operator for the star of a signature
        return None
    before, after = source.splitlines(), code.splitlines()
    mutated = after[place.line - 1].strip() if len(after) == len(before) else ""
    return Mutant(place, before[place.line - 1].strip(), mutated, code)


def _rank(place: Place) -> str:
    return hashlib.sha256(place.key.encode()).hexdigest()


def _module_places(source: str, path: str) -> Iterator[Place]:
    text = source.splitlines()
    skipped = SkippedPlaces(source)
    nodes = list(ast_nodes(get_ast(source)))
    copies: dict[str, int] = defaultdict(int)
    for name in OPERATORS:
        operator = get_operator(name)()
        starts = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(starts):
            star = text[line - 1][column : column + 2] == "*,"  # of a signature: no product
            if not star and not skipped.covers(line, column):
                original = text[line - 1].strip()
                indentation = len(text[line - 1]) - len(text[line - 1].lstrip())
                key = f"{path} | {original} | {name}, column {column - indentation}"
                copies[key] += 1
                yield Place(path, line, name, occurrence, f"{key}, {copies[key]}")
