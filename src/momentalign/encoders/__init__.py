"""Networks that turn inputs into the features a linear head reads, each with its preprocessing.

:func:`build_encoder` makes one from what people type: MNIST_CNN, an MLP, any vision or text model in Hugging Face
format, or the encoder of a finished run. :func:`embed` writes the features of a data set to a file.
"""

from momentalign.encoders._base import Encoder
from momentalign.encoders._build import build_encoder, default_encoder, encoder_from_folder
from momentalign.encoders._embed import Embedding, embed
from momentalign.encoders._images import ImagePreprocessing
from momentalign.encoders._mlp import MLP
from momentalign.encoders._mnist_cnn import MNIST_CNN
from momentalign.encoders._preprocessing import Preprocessing, TensorPreprocessing
from momentalign.encoders._run import encoder_from_config, encoder_from_run, preprocessing_from_config
from momentalign.encoders._table import TablePreprocessing
from momentalign.encoders._text import HuggingFaceText
from momentalign.encoders._texts import TextPreprocessing
from momentalign.encoders._vision import HuggingFaceVision

__all__ = [
    "MLP",
    "MNIST_CNN",
    "Embedding",
    "Encoder",
    "HuggingFaceText",
    "HuggingFaceVision",
    "ImagePreprocessing",
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
    "preprocessing_from_config",
]
