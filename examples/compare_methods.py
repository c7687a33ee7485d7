"""
A comparison, read as pandas
============================

Three algorithms on a table of simulated patients, two hospitals left out in turn, two trials each: twelve small runs.
`momentalign sweep` plans, resumes and parallelizes such comparisons; a run is a folder either way, and
:func:`momentalign.read_runs` reads all of them into one frame.
"""

import sys
import tempfile
from pathlib import Path

import altair as alt

import momentalign
from momentalign.data import table_spec
from momentalign.selection import select
from momentalign.training import make_config, run

path = Path(sys.argv[0]).with_name("hospitals.csv")
dataset = table_spec(path, target="disease", domain="hospital")
folder = Path(tempfile.mkdtemp())
for algorithm in ("erm", "coral", "cma"):
    for left_out in ("Geneva", "Zurich"):
        for trial in range(2):
            config = make_config(
                dataset,
                algorithm,
                test_domains=[left_out],
                trial=trial,
                steps=60,
                record_every=20,
                hparams={"batch_size": 32},
            )
            run(config, folder / config.hash())

# %%
# One row per run, in two lines:

runs = momentalign.read_runs(folder).to_frame()
columns = ["test_domain", "algorithm", "trial", "validation", "test"]
print(runs[columns].sort_values(columns).round(3).to_string(index=False))

# %%
# A selection rule decides which record of a run counts. `training-domain` takes the best on held-out rows of the
# training hospitals; `oracle` chooses by labels of the test hospital, which are not available in practice.

chosen = {rule: select(momentalign.read_runs(folder), rule).assign(rule=rule) for rule in ("training-domain", "oracle")}
for rule, frame in chosen.items():
    print(rule, frame.groupby("algorithm")["test"].mean().round(3).to_dict())

# %%
# A point is a trial, a line the mean of two. Differences between methods are small compared with those between trials
# and hospitals: no method can be called best from this.

base = alt.Chart(chosen["training-domain"]).encode(
    x=alt.X("test:Q", title="accuracy on the hospital left out", axis=alt.Axis(format="%")).scale(zero=False),
    y=alt.Y("algorithm:N", title=None),
    color=alt.Color("algorithm:N", legend=None),
)
chart = alt.layer(base.mark_point(filled=True, size=60), base.mark_tick(thickness=2, size=26).encode(x="mean(test):Q"))
chart.properties(width=300).facet(column=alt.Column("test_domain:N", title="left out")).save("compare_methods.svg")
