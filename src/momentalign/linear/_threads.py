"""How many threads the products of small blocks take."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # comes with scikit-learn

_WIDE = 512
"""Features from which on a block's products are large enough to share."""


def one_thread(dimension: int) -> AbstractContextManager[Any]:
    """Keep BLAS to one thread while blocks of few features are multiplied.

    A product of a megabyte lasts a fraction of a millisecond. Handing half of it to another thread costs about as much
    as it saves on an idle machine, and ten times as much on a busy one, where that thread has to wait for its turn.

    Args:
        dimension: Number d of features.

    Returns:
        The context; one that does nothing for wide features.
    """
    if dimension >= _WIDE:
        return nullcontext()
    context: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return context


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
