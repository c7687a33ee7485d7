"""Networks that turn inputs into the features a linear head reads."""

from momentalign.encoders._mnist_cnn import MNIST_CNN

__all__ = ["MNIST_CNN"]
