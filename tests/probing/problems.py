"""Small data with a shortcut: in the training rows the domain goes with the class, in the others it does not."""

from pathlib import Path

import numpy as np

from momentalign.probing import ProbeData


def spurious_data(
    train: int = 240, other: int = 120, features: int = 6, classes: int = 2, seed: int = 0, share: float = 0.85
) -> ProbeData:
    rng = np.random.default_rng(seed)
    splits = np.repeat([0, 1, 2], [train, other, other])
    y = rng.integers(0, classes, len(splits))
    follows = rng.random(len(y)) < np.where(splits == 0, share, 0.5)
    place = np.where(follows, y % 2, 1 - y % 2)
    X = rng.normal(size=(len(y), features))
    X[:, :classes] += 1.2 * np.eye(classes)[y]
    X[:, -1] += 2.0 * place
    X[:, -2] *= 1.0 + place
    return ProbeData.from_arrays(X, y, np.array(["land", "water"])[place], splits, name="spurious")


def write_csv(data: ProbeData, path: Path) -> Path:
    import pandas as pd

    frame = pd.DataFrame(data.features, columns=[f"x{k}" for k in range(data.features.shape[1])])
    frame["y"] = data.targets
    frame["domain"] = np.array(data.domain_names)[data.domains]
    frame["split"] = np.array(["train", "val", "test"])[data.splits]
    frame["group"] = np.array(data.group_names)[data.groups]
    frame.to_csv(path, index=False)
    return path
