"""Time and memory of a training step beside the published ones: the page of `momentalign bench --paper`."""
