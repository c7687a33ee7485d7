"""
The worst group
===============

Nine rows in ten have the usual background of their class, as in pictures of cows on grass. The mean over rows looks
good, but more than a third of the worst of the rare combinations is misclassified. Remedies for a linear head on fixed
features, on five draws of simulated rows, with their cost in average accuracy.
"""

import altair as alt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from momentalign.sklearn import GroupRobustClassifier, group_report


def draw(rng: np.random.Generator, n: int, agreement: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw features (n, 12), classes (n,) and groups (n,); the first two features show class and background."""
    y = rng.integers(2, size=n)
    background = np.where(rng.random(n) < agreement, y, 1 - y)
    X = rng.normal(size=(n, 12))
    X[:, 0] += 1.2 * (2 * y - 1)
    X[:, 1] += 2.0 * (2 * background - 1)
    return X, y, np.array([f"class {a}, background {b}" for a, b in zip(y, background, strict=True)])


rows = []
for seed in range(5):
    rng = np.random.default_rng(seed)
    X, y, group = draw(rng, 600, agreement=0.9)
    new_rows, new_classes, new_groups = draw(rng, 4000, agreement=0.9)
    models = {"logistic regression": LogisticRegression().fit(X, y)}
    for method in ("balanced", "subsampled", "groupdro"):
        models[method] = GroupRobustClassifier(method).fit(X, y, groups=group)
    for name, model in models.items():
        report = group_report(new_classes, model.predict(new_rows), new_groups)
        rows.append(
            {"model": name, "seed": seed, "worst group": report.worst_group.accuracy, "average": report.average}
        )
scores = pd.DataFrame(rows)
print(scores.groupby("model")[["worst group", "average"]].agg(["mean", "std"]).round(3))

# %%
# Every point is a draw. Groups are needed for training only, not to predict.

long = scores.melt(id_vars=["model", "seed"], var_name="measure", value_name="accuracy")
base = alt.Chart(long).encode(
    x=alt.X("accuracy:Q", axis=alt.Axis(format="%")).scale(zero=False),
    y=alt.Y("model:N", title=None, sort=list(models)),
    color=alt.Color("measure:N", title=None),
)
chart = base.mark_point(filled=True, opacity=0.6) + base.mark_tick(thickness=2, size=18).encode(
    x=alt.X("mean(accuracy):Q", title="accuracy")
)
chart.properties(width=420).save("worst_group.svg")
