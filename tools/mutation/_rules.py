"""Places of a module that are not mutated: no test could, or should, notice."""

import ast

UNOBSERVABLE_DECORATORS = {"overload", "override", "final", "abstractmethod", "cache", "lru_cache", "cached_property"}
"""Decorators for type checkers and for speed: without them the results are the same."""

KERNEL_FUNCTIONS = {"_can_fuse", "_fused_spreads", "_recomputed", "_block_sizes"}
"""Functions that only run where Triton kernels do; classes that launch kernels are found by that name."""


LOOKS = {
    *("dx", "dy", "fontSize", "labelFontSize", "titleFontSize", "labelLimit", "limit", "padding", "paddingInner"),
    *("size", "strokeWidth", "symbolStrokeWidth", "thickness", "tickCount"),
}
"""Options of charts in pixels, and how many ticks an axis aims at: a test of them would repeat the number."""


class SkippedPlaces:
    """Annotations, messages, ``__repr__``, ``__all__``, decorators for type checkers, kernel launches, pixels."""

    def __init__(self, source: str) -> None:
        self._spans: list[tuple[tuple[int, int], tuple[int, int]]] = []
        tree = ast.parse(source)
        self._skip_kernels(tree)
        for node in ast.walk(tree):
            self._visit(node)

    def covers(self, line: int, column: int) -> bool:
        """Whether a position is in one of them."""
        return any(start <= (line, column) < stop for start, stop in self._spans)

    def _skip(self, node: ast.expr | ast.stmt | ast.keyword | None) -> None:
        if node is not None:
            self._spans.append(((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)))

    def _skip_kernels(self, tree: ast.Module) -> None:
        """Skip code that launches kernels, and the module's constants that nothing else uses."""
        launching = [
            node
            for node in tree.body
            if (isinstance(node, ast.ClassDef) and "kernels" in _names(node))
            or (isinstance(node, ast.FunctionDef) and node.name in KERNEL_FUNCTIONS)
        ]
        if launching:
            others = [node for node in tree.body if node not in launching and not isinstance(node, ast.Assign)]
            used = {name for node in others for name in _names(node)}
            constants = [node for node in tree.body if isinstance(node, ast.Assign) and not _names(node) & used]
            for node in [*launching, *constants]:
                self._skip(node)

    def _visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.arg | ast.AnnAssign):
            self._skip(node.annotation)
        elif isinstance(node, ast.FunctionDef):
            self._skip(node.returns)
            self._decorators(node)
            if node.name == "__repr__":
                for statement in node.body:
                    self._skip(statement)
        elif isinstance(node, ast.ClassDef):
            self._decorators(node)
        elif isinstance(node, ast.Assign) and any(getattr(name, "id", "") == "__all__" for name in node.targets):
            self._skip(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in {getattr(name, "id", "") for name in ast.walk(node.test)}:
            self._skip(node.test)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):  # the message's text
            for argument in node.exc.args:
                self._skip(argument)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in LOOKS and isinstance(value, ast.Constant):
                    self._skip(value)
        elif isinstance(node, ast.Call):
            self._call(node)

    def _decorators(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            start, stop = (decorator.lineno, 0), (decorator.end_lineno or 0, decorator.end_col_offset or 0)
            if name in UNOBSERVABLE_DECORATORS:
                self._spans.append((start, stop))  # with the @ before the name
            elif name == "dataclass" and isinstance(decorator, ast.Call):  # frozen, slots: they only forbid
                for keyword in decorator.keywords:
                    self._skip(keyword)

    def _call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name == "warn":
            for argument in node.args[:1]:
                self._skip(argument)
        if name == "round" and any(isinstance(digits, ast.Constant) for digits in node.args[1:]):
            self._skip(node.args[1])  # digits that keep a page small, beyond those that it shows
        for keyword in node.keywords:
            # Checks that never fail in working code, and the line of ours that a warning names.
            if (name == "zip" and keyword.arg == "strict") or (name == "warn" and keyword.arg == "stacklevel"):
                self._skip(keyword)
            elif keyword.arg in LOOKS and (name.startswith("mark_") or name in ("Axis", "Scale", "Legend")):
                self._skip(keyword.value)


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
