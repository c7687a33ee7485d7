"""Runs of the DomainBed protocol that the result pages are made of: `python -m benchmarks.domainbed NAME --help`.

A study is a list of sweeps, the most informative runs first. Runs that are finished in the output folder, or whose
records are already stored in docs/results/records, are left out, so that a study can be done half an hour at a time.
Several processes with the same output folder share the runs.
"""
