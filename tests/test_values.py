"""A rewrite changes no number: every value of `tests/values.py` is the recorded one."""

import pytest

from tests.values import SECTIONS, differences, record

pytestmark = pytest.mark.slow

RECORDED = record()


@pytest.mark.parametrize("section", SECTIONS)
def test_values_are_the_recorded_ones(section: str) -> None:
    changed = differences(section, RECORDED[section])
    assert not changed, "\n".join([f"{len(changed)} differ:", *changed[:40]])
