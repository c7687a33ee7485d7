"""What a file of features says of itself."""

from pathlib import Path


def source_of(path: str | Path) -> dict[str, str]:
    """The data set and the encoder that features are of, as `momentalign embed` wrote them into the file.

    Args:
        path: A file of features.

    Returns:
        Names by "dataset" and "encoder"; empty for a file that something else wrote.
    """
    from momentalign.encoders import read_plan

    plan = read_plan(Path(path))
    try:
        return {"dataset": str(plan["data set"]["name"]), "encoder": str(plan["encoder"]["name"])}
    except (KeyError, TypeError):
        return {}
