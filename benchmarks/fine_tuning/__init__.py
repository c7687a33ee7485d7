"""Measure what alignment does to a network that is fine-tuned with it: the tables of docs/results/fine-tuning.md.

    python -m benchmarks.fine_tuning pacs --jobs 14 -o pacs.jsonl
    python -m benchmarks.fine_tuning digits -o digits.jsonl
    python -m benchmarks.fine_tuning tables -o tables.jsonl
    python -m benchmarks.fine_tuning show pacs.jsonl

ERM, CMA with relative scaling at several weights, and the published settings are trained on the same data, first
weights and batches. Seed 0 settles the weights; the other seeds confirm them. `pacs` fine-tunes a pretrained
MobileNetV2 end to end and wants a GPU, `digits` trains MNIST_CNN and `tables` an MLP, both from scratch. Finished runs
are lines of the output and are not repeated.
"""
