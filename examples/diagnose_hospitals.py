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
# Left, each hospital by the mean of its columns, distances with their noise removed; lines are 95% intervals. Right,
# the columns that carry the difference.

domains = diagnosis.map
places = pd.DataFrame(
    {
        "hospital": diagnosis.rows.names,
        "x": domains.points[:, 0],
        "y": domains.points[:, 1],
        "left": domains.points[:, 0] - domains.errors[:, 0],
        "right": domains.points[:, 0] + domains.errors[:, 0],
        "low": domains.points[:, 1] - domains.errors[:, 1],
        "high": domains.points[:, 1] + domains.errors[:, 1],
    }
)
scale = alt.Scale(domain=[-0.8, 0.8])  # the same in both directions
axis = alt.Axis(title=None, tickCount=5)
base = alt.Chart(places).encode(x=alt.X("x:Q", scale=scale, axis=axis), y=alt.Y("y:Q", scale=scale, axis=axis))
plane = alt.layer(
    base.mark_rule(opacity=0.5).encode(x="left:Q", x2="right:Q"),
    base.mark_rule(opacity=0.5).encode(y="low:Q", y2="high:Q"),
    base.mark_point(filled=True, size=70),
    base.mark_text(dx=6, dy=-8, align="left").encode(text="hospital:N"),
).properties(width=260, height=260, title="map of the hospitals (standard deviations)")
columns = pd.DataFrame({"column": column.name, "share": column.share} for column in diagnosis.columns)
bars = (
    alt.Chart(columns)
    .mark_bar()
    .encode(
        x=alt.X("share:Q", title="share of the squared distances", axis=alt.Axis(format="%")),
        y=alt.Y("column:N", sort=None, title=None),
    )
)
(plane | bars.properties(width=220, title="columns that differ")).save("diagnose_hospitals.svg")
