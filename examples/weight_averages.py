"""
Averaged weights and soups
==========================

Two averages that cost nothing when a model is used. One is over the steps of a run (`average="sma"`), recorded beside
the raw weights. The other, a soup, is over runs that begin with the same weights and differ in their hyper-parameters.
The patients are simulated, Geneva is left out.
"""

import sys
import tempfile
from pathlib import Path

import altair as alt
import pandas as pd

from momentalign.data import table_spec
from momentalign.runs import read_records
from momentalign.training import make_config, make_soup, plan_soups, run

dataset = table_spec(Path(sys.argv[0]).with_name("hospitals.csv"), target="disease", domain="hospital")
folder = Path(tempfile.mkdtemp())
rows = []
for trial in range(2):
    for number, lr in enumerate((1e-3, 3e-3, 1e-2)):
        config = make_config(
            dataset,
            test_domains=["Geneva"],
            trial=trial,
            hparams_seed=number,
            average="sma",
            steps=60,
            record_every=6,
            hparams={"batch_size": 16, "lr": lr},
        )
        run(config, folder / "runs" / config.hash())
        for record in read_records(folder / "runs" / config.hash()):
            if record["domain"] == "Geneva" and record["split"] == "in" and record["metric"].endswith("accuracy"):
                weights = "averaged" if record["metric"].startswith("averaged") else "raw"
                rows.append({"run": f"trial {trial}, lr {lr}", "weights": weights} | record)
curves = pd.DataFrame(rows)
late = curves[curves["step"] >= 30]
print(late.groupby(["run", "weights"])["value"].agg(["mean", "std"]).unstack().round(3))

# %%
# A soup for each trial. Only the held-out rows of the hospitals that were trained on decide what goes into the greedy
# one.

for plan in plan_soups(folder / "runs")[0]:
    for score in make_soup(plan, folder / "soups"):
        print(f"{score.name:16} of {len(score.runs)}: held out {score.held_out:.3f}, Geneva {score.test:.3f}")

# %%
# Averages change less from record to record. Here they are higher in one trial and lower in the other.

chart = (
    alt.Chart(curves)
    .mark_line()
    .encode(
        x=alt.X("step:Q"),
        y=alt.Y("value:Q", title="accuracy in Geneva", axis=alt.Axis(format="%")).scale(zero=False),
        color=alt.Color("weights:N", title=None),
    )
)
chart.properties(width=150, height=130).facet(alt.Facet("run:N", title=None), columns=3).save("weight_averages.svg")
