"""Do the searches of the estimators harm, and do they gain: 35 sets with domains, each left out in turn.

`python -m benchmarks.estimators --out FILE` runs the study, resumes after an interruption, and prints the tables of
docs/results/estimators.md.
"""
