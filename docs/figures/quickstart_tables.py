"""Draw docs/figures/quickstart-tables.svg: a plain model on each hospital of examples/hospitals.csv.

Run `python docs/figures/quickstart_tables.py` from the root of the repository.
"""

from pathlib import Path

import altair as alt
import vl_convert

from momentalign.report._style import LIGHT, chart_config
from momentalign.tables import plan_diagnosis
from momentalign.tables._plain_fits import fit_plain

TABLE = Path(__file__).parents[2] / "examples" / "hospitals.csv"
MODELS = ("left out", "rows of its own in training")


def figure() -> str:
    """The figure as SVG: the first chart of the page that `momentalign diagnose` writes."""
    plan = plan_diagnosis(TABLE, target="disease", domain="hospital")
    scores = sorted(fit_plain(plan.rows, 0, lambda *_: None).scores, key=lambda score: score.left_out.value)
    rows = [
        {"hospital": score.domain, "model": model, "text": f"{100 * found.value:.0f}%"}
        | {key: round(100 * getattr(found, key), 2) for key in ("value", "low", "high")}
        for score in scores
        for model, found in zip(MODELS, (score.left_out, score.seen), strict=True)
        if found is not None
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("hospital:N", sort=[score.domain for score in scores], title=None),
        yOffset=alt.YOffset("model:N", sort=list(MODELS)),
        color=alt.Color(
            "model:N",
            sort=list(MODELS),
            scale=alt.Scale(domain=list(MODELS), range=[LIGHT[1], LIGHT[0]]),
            legend=alt.Legend(title=None, orient="top"),
        ),
    )
    title = "accuracy in %, with 95% intervals"
    scale = alt.Scale(zero=False)
    chart = alt.layer(
        base.mark_rule(strokeWidth=1.6).encode(x=alt.X("low:Q", title=title, scale=scale), x2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("value:Q", title=title, scale=scale)),
        base.mark_text(align="left", dx=4, dy=-9, fontSize=10).encode(
            x=alt.X("value:Q", title=title, scale=scale), text="text:N"
        ),
    ).properties(width=440, height=46 * len(scores))
    return vl_convert.vegalite_to_svg({**chart.to_dict(), "config": chart_config(page=False), "padding": 12})


if __name__ == "__main__":
    Path(__file__).with_name("quickstart-tables.svg").write_text(figure(), encoding="utf-8")
