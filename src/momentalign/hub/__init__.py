"""Share trained models on the Hugging Face hub: upload one with a model card, load one by its name.

:func:`push_to_hub` uploads the folder of a finished run or of a probe; :func:`from_pretrained` downloads and loads it.
Models are safetensors and JSON with checksums: loading one runs no code. :func:`model_card` makes the card alone.
"""

from momentalign.hub._card import model_card
from momentalign.hub._repository import files_to_upload, from_pretrained, push_to_hub

__all__ = ["files_to_upload", "from_pretrained", "model_card", "push_to_hub"]
