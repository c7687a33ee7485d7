"""Mutation testing in samples: small bugs put into a copy of the package, and the tests that notice them.

``python -m tools.mutation`` prints the score of each package. It needs cosmic-ray, whose operators make the mutants,
and coverage, which says which tests run a line.
"""
