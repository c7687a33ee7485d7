"""Encoders: networks from inputs to features, each with its preprocessing.

:func:`build_encoder` makes one from a name: MNIST_CNN, an MLP, any vision or text model in Hugging Face format, or the
encoder of a finished run. :func:`embed` saves the features of a data set to a file.
"""

from momentalign.encoders._base import Encoder, Preprocessing, TensorPreprocessing
from momentalign.encoders._build import (
    build_encoder,
    default_encoder,
    encoder_from_folder,
    is_small_network,
    is_untrained,
    name_encoder,
)
from momentalign.encoders._embed import Embedding, embed, read_plan
from momentalign.encoders._images import AUGMENTATIONS, DecodedImages, ImagePreprocessing, PixelPreprocessing
from momentalign.encoders._networks import MLP, MNIST_CNN, Pixels
from momentalign.encoders._reading import read_rows
from momentalign.encoders._run import encoder_from_config, encoder_from_run
from momentalign.encoders._table import TablePreprocessing
from momentalign.encoders._text import HuggingFaceText, TextPreprocessing
from momentalign.encoders._vision import HuggingFaceVision

__all__ = [
    "AUGMENTATIONS",
    "MLP",
    "MNIST_CNN",
    "DecodedImages",
    "Embedding",
    "Encoder",
    "HuggingFaceText",
    "HuggingFaceVision",
    "ImagePreprocessing",
    "PixelPreprocessing",
    "Pixels",
    "Preprocessing",
    "TablePreprocessing",
    "TensorPreprocessing",
    "TextPreprocessing",
    "build_encoder",
    "default_encoder",
    "embed",
    "encoder_from_config",
    "encoder_from_folder",
    "encoder_from_run",
    "is_small_network",
    "is_untrained",
    "name_encoder",
    "read_plan",
    "read_rows",
]
