"""Why CMA's gain on ColoredMNIST decays: one factor changed at a time, with the prediction written before the run.

The runs are the study `ablation` of `python -m benchmarks.domainbed`.
"""
