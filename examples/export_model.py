"""
A model for other programs
==========================

A trained network becomes one file, in ONNX or in the format of `torch.export`, that needs neither this package nor its
code: raw rows in, logits out, with the preprocessing and the names of the classes. On the command line it is
`momentalign export RUN -o model.onnx`. The network is small and is trained on digits rotated by 0 to 60 degrees; 75
degrees are left out.
"""

import json
import tempfile
from pathlib import Path

import altair as alt
import onnxruntime  # type: ignore[import-untyped]
import pandas as pd
import torch

from momentalign.data import load_dataset
from momentalign.training import export_model, make_config, run

folder = Path(tempfile.mkdtemp())
config = make_config("rotated-digits", "erm", test_domains=["75"], steps=150, record_every=150)
run(config, folder / "run")
export_model(folder / "run", folder / "model.pt2")
model = export_model(folder / "run", folder / "model.onnx")  # returns what momentalign.load does

# %%
# Each is opened by its own library; a batch may have any number of rows.

files = {"classes.json": ""}
program = torch.export.load(folder / "model.pt2", extra_files=files).module()
session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
print("classes:", ", ".join(json.loads(files["classes.json"])))

# %%
# The three agree on rows of every angle, up to rounding.

digits = load_dataset("rotated-digits")
LOGITS = []
for name in digits.names:
    rows = digits.split(name, "in").tensor[:60]
    with torch.no_grad():
        expected, exported = model(rows).numpy(), program(rows).numpy()
    (from_onnx,) = session.run(None, {session.get_inputs()[0].name: rows.numpy()})
    difference = max(abs(found - expected).max() for found in (exported, from_onnx))
    print(f"{name:>2} degrees: largest difference {difference:.1e}")
    frame = pd.DataFrame({"angle": int(name), "network": expected.ravel(), "ONNX": from_onnx.ravel()})
    LOGITS.append(frame.sample(60, random_state=0))

# %%
chart = (
    alt.Chart(pd.concat(LOGITS))
    .mark_point(opacity=0.7)
    .encode(
        x=alt.X("network:Q", title="logit of the network"),
        y=alt.Y("ONNX:Q", title="logit of the ONNX file"),
        color=alt.Color("angle:O", title="angle"),
    )
)
chart.properties(width=300, height=240).save("export_model.svg")
