"""Every probing method on fixed features of PACS, one domain left out.

`python -m benchmarks.probing --out FILE` runs the study and resumes after an interruption; the tables of
docs/results/probing.md are made from its records by `python -m benchmarks.pages`.
"""
