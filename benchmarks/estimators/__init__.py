"""What alignment brings on real tables: leave-one-domain-out over seeds, every method on the same rows.

`python -m benchmarks.estimators --out FILE` runs the study, resumes after an interruption, and prints the tables of
docs/real-tables.md.
"""
