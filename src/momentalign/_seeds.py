"""Seeds by name, so that data, split, search, initialisation and sampling each have their own."""

import hashlib


def seed_hash(*args: object) -> int:
    """Turn a few values into a seed: the MD5 digest of their tuple's text, modulo 2^31.

    Args:
        *args: Integers and strings that name what is seeded.

    Returns:
        A seed in 0...2^31 - 1, the same on every machine.

    Example:
        >>> seed_hash(0, 0)
        894182419
    """
    digest = hashlib.md5(str(args).encode("utf-8"), usedforsecurity=False).hexdigest()
    return int(digest, 16) % 2**31
