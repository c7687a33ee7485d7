import torch

from tests.browser import browser, chromium  # noqa: F401  (fixtures)

# Small tensors: a second thread costs more than it brings, most of all where tests run side by side.
torch.set_num_threads(1)
