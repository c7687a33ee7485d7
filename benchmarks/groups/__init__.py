"""Average against worst group: remedies for groups of class and attribute on four tables and two sets of features.

`python -m benchmarks.groups --out FILE` runs the study and resumes after an interruption; the tables and figures of
docs/results/groups.md are made from its records by `python -m benchmarks.pages`.
"""
