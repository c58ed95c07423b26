"""Language models: Gpt2 and Llama, new or out of a folder as Hugging Face's library writes it (load_huggingface)."""
from ._core import _models
from ._core._models import *  # noqa: F403

__all__ = [name for name in vars(_models) if not name.startswith("_")]
