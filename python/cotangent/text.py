"""Tokenizers: load_tokenizer() of a tokenizer.json, or of GPT-2's two files; CharTokenizer of a text of one's own."""
from ._core import _text
from ._core._text import *  # noqa: F403

__all__ = [name for name in vars(_text) if not name.startswith("_")]
