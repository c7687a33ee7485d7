"""Seeds by name, so that data, split, search, initialisation and sampling each have their own."""

import hashlib

import numpy as np

from momentalign._types import Integers


def seed_hash(*args: object) -> int:
    """Hash integers and strings to a seed, the same on every machine: the MD5 of their tuple's text, modulo 2^31.

    Example:
        >>> seed_hash(0, 0)
        894182419
    """
    digest = hashlib.md5(str(args).encode("utf-8"), usedforsecurity=False).hexdigest()
    return int(digest, 16) % 2**31


def holdout_rows(n: int, trial: int, domain: int, *, fraction: float = 0.2) -> tuple[Integers, Integers]:
    """Rows of the "in" and "out" split of one domain; `fraction` of the n rows, rounded down, is held out.

    The same rows as in the DomainBed protocol.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"'fraction' should be between 0 and 1, but is {fraction}.")
    order = np.arange(n)
    # RandomState rather than a Generator: its stream is frozen, and it is the one DomainBed shuffles with.
    np.random.RandomState(seed_hash(trial, domain)).shuffle(order)
    held_out = int(fraction * n)
    return order[held_out:], order[:held_out]
