"""
Estimators on a table
=====================

Simulated patients of several hospitals, and the question to ask before a model is used in the next one: how well does
it do in a hospital that it has not seen? Each hospital is left out once. The table is made up: its numbers show
how the pieces fit together, not what to expect of your data.
"""

import sys
from pathlib import Path

import altair as alt
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from momentalign.sklearn import MomentAlignedClassifierCV

table = pd.read_csv(Path(sys.argv[0]).with_name("hospitals.csv"))
X, y, hospital = table.drop(columns=["hospital", "disease"]), table["disease"], table["hospital"]
print(pd.crosstab(hospital, y))

# %%
# Two linear models on the same columns. The plain one chooses its regularization by folds of rows. The aligned one is
# told the hospitals: it leaves each of them out in turn, and departs from scikit-learn's defaults only where these give
# evidence for it.


scores = []
for name in sorted(set(hospital)):
    new = hospital == name
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "chest_pain"]),
        remainder=make_pipeline(SimpleImputer(), StandardScaler()),
    ).fit(X[~new])
    known, unseen = columns.transform(X[~new]), columns.transform(X[new])
    plain = LogisticRegressionCV(l1_ratios=(0,), scoring="accuracy", use_legacy_attributes=False).fit(known, y[~new])
    aligned = MomentAlignedClassifierCV().fit(known, y[~new], domains=hospital[~new].to_numpy())
    for model, fitted in (("plain", plain), ("aligned", aligned)):
        accuracy = fitted.score(unseen, y[new])
        error = (accuracy * (1 - accuracy) / new.sum()) ** 0.5
        row = {"hospital left out": name, "model": model, "accuracy": accuracy}
        scores.append(row | {"low": accuracy - 1.96 * error, "high": accuracy + 1.96 * error})
frame = pd.DataFrame(scores)
print(frame.pivot(index="hospital left out", columns="model", values="accuracy").round(3))

# %%
# Lines are 95% intervals for the rows of the hospital: differences within them say nothing.

base = alt.Chart(frame).encode(
    y=alt.Y("hospital left out:N"), yOffset="model:N", color=alt.Color("model:N", title=None)
)
points = base.mark_point(filled=True, size=70).encode(
    x=alt.X("accuracy:Q", title="accuracy", axis=alt.Axis(format="%")).scale(zero=False)
)
lines = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="accuracy"), x2="high:Q")
(lines + points).properties(width=420).save("table_of_hospitals.svg")
