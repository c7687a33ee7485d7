"""Simulate examples/hospitals.csv: patients of five hospitals, no real ones.

A disease changes what is measured in the same way everywhere, except for the marker: how much of it goes with the
disease differs from hospital to hospital, and in Geneva, where patients arrive after treatment, it is lowered instead.

    python -m benchmarks.hospitals
"""

import csv
import io
import random
from pathlib import Path

HOSPITALS = {
    "Basel": (240, 0.45, 1.6),
    "Bern": (210, 0.40, 1.2),
    "Geneva": (160, 0.50, -0.4),
    "Lugano": (150, 0.35, 0.7),
    "Zurich": (240, 0.50, 1.0),
}
"""Patients, share of the ill, and rise of the marker with the disease, of each hospital."""
PAINS = {False: ("none", "none", "pressure", "stabbing"), True: ("none", "pressure", "pressure", "stabbing")}
TABLE = Path(__file__).parents[1] / "examples" / "hospitals.csv"
COLUMNS = ("hospital", "disease", "age", "sex", "chest_pain", "blood_pressure", "max_heart_rate", "marker")


def patients() -> str:
    """The table as CSV text, always the same."""
    draw = random.Random(0)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for hospital, (number, share, rise) in HOSPITALS.items():
        for _ in range(number):
            ill = draw.random() < share
            sex = draw.choice(("female", "male"))
            age = draw.gauss(62 if ill else 56, 9)
            pressure = draw.gauss(138 if ill else 130, 14)
            rate = draw.gauss(136 if ill else 147, 15)
            marker = draw.gauss(2 + rise * ill, 0.8)
            taken = "" if draw.random() < 0.05 else round(pressure)  # some blood pressures are missing
            measured = (round(age), sex, draw.choice(PAINS[ill]), taken, round(rate), f"{marker:.2f}")
            writer.writerow((hospital, "yes" if ill else "no", *measured))
    return text.getvalue()


if __name__ == "__main__":
    TABLE.write_text(patients(), encoding="utf-8", newline="")
    print(f"Saved {TABLE}.")
