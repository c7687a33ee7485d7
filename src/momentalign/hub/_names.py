"""Names of data and encoders without private paths."""

from pathlib import Path, PurePosixPath, PureWindowsPath


def public_name(name: str) -> str:
    """Cut an absolute path, which may name people and machines, to its last part; other names are unchanged.

    Example:
        >>> public_name("/home/ada/patients.csv"), public_name("hf:google/vit"), public_name("hf:/models/vit")
        ('patients.csv', 'hf:google/vit', 'hf:vit')
    """
    kind, colon, rest = name.partition(":")
    prefix, path = (f"{kind}:", rest) if colon and kind in ("hf", "hf-config") else ("", name)
    if Path(path).expanduser().is_absolute() or PureWindowsPath(path).is_absolute():
        windows = PureWindowsPath(path).is_absolute()
        return prefix + (PureWindowsPath(path) if windows else PurePosixPath(path)).name
    return name
