"""How much of a report is made, for those who wait for it."""

from collections.abc import Callable

Tell = Callable[[str, float], None]
"""Is told which part comes next and what share of the whole, 0 to 1, is made."""


class Parts:
    """Turns parts of a report into shares of the whole.

    Args:
        domains: How many there are: the transfer measures take an ascent for each ordered pair of them.
        target: Whether there is a target, and whether it has labels.
        tell: Is told; None where nobody waits.
    """

    def __init__(self, domains: int, target: tuple[bool, bool], tell: Tell | None) -> None:
        # What the parts took relative to each other on tables of 800 to 4,000 rows; an estimate needs no more.
        weights = {
            "hull check": 10.0 * target[0],
            "Pareto point": 18.0,
            "transfer measures": 2.5 * domains * (domains - 1),
            "bounds": 6.0,
            "distances of derivatives": 8.0,
            "target": 5.0 * target[1],
        }
        self._weights = {name: weight for name, weight in weights.items() if weight}
        self._tell = tell
        self._made = 0.0
        self._now: str | None = None

    def start(self, name: str | None) -> None:
        """Say that a part starts, None for the end; what was under way until now is made."""
        self._made += self._weights.get(self._now, 0.0) if self._now is not None else 0.0
        self._now = name
        self.inside(0.0)

    def inside(self, share: float) -> None:
        """Say how much of the present part is made."""
        if self._tell is not None:
            part = self._weights.get(self._now, 0.0) * share if self._now is not None else 0.0
            self._tell(self._now or "done", min(1.0, (self._made + part) / sum(self._weights.values())))
