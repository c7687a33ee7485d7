"""Study of selection rules without target data: `python -m benchmarks.selection RUNS... --help`.

Every rule scores a record by the held-out rows of the training domains; the record and the set of hyper-parameters with
the largest score are chosen within data set, algorithm, test domain and trial. The number is the accuracy on the test
domain's "in" split, averaged over test domains within a trial, then over trials.
"""
