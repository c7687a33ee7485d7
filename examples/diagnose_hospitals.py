"""
How do my domains differ?
=========================

Before a method is chosen: how far apart are the domains, in which columns, and what does that cost a plain model? The
command `momentalign diagnose hospitals.csv --target disease --domain hospital` writes a page with the answers; here are
the same numbers in Python. The patients are simulated.
"""

import sys
import textwrap
from pathlib import Path

import altair as alt
import pandas as pd

from momentalign.tables import plan_diagnosis

plan = plan_diagnosis(Path(sys.argv[0]).with_name("hospitals.csv"), target="disease", domain="hospital")
diagnosis = plan.run(l2=1e-2, radius=1.0, order=1, seed=0)
print("\n".join(textwrap.fill(finding, 80, subsequent_indent="  ") for finding in diagnosis.findings()))

# %%
# What to try, by how well it did where a hospital was left out:

print("\n".join(textwrap.fill(advice, 80, subsequent_indent="  ") for advice in diagnosis.advice()))

# %%
# Left, the accuracy of a plain model on each hospital that it has not seen, with 95% intervals. Right, the columns that
# carry the difference between the hospitals.

scores = pd.DataFrame({"hospital": score.domain, **vars(score.left_out)} for score in diagnosis.fits.scores)
base = alt.Chart(scores).encode(y=alt.Y("hospital:N", title=None))
left_out = alt.layer(
    base.mark_rule(opacity=0.5).encode(x=alt.X("low:Q", title="accuracy", scale=alt.Scale(zero=False)), x2="high:Q"),
    base.mark_point(filled=True, size=70).encode(x="value:Q"),
).properties(width=260, title="hospitals that were left out")
columns = pd.DataFrame({"column": column.name, "share": column.share} for column in diagnosis.columns)
bars = (
    alt.Chart(columns)
    .mark_bar()
    .encode(
        x=alt.X("share:Q", title="share of the squared distances", axis=alt.Axis(format="%")),
        y=alt.Y("column:N", sort=None, title=None),
    )
)
(left_out | bars.properties(width=220, title="columns that differ")).save("diagnose_hospitals.svg")
