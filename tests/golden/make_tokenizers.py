#!/usr/bin/env python3
"""Writes tokenizers.json: small byte-pair tokenizers trained with Hugging Face's `tokenizers`, and what it makes of
some texts. usage: python3 tests/golden/make_tokenizers.py (where `tokenizers` is installed)
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
CORPUS = ["the quick brown fox jumps over the lazy dog; it's 1234 o'clock, we'll see them there " * 3,
          "a tensor is a handle: copying a Tensor shares the data\n\n    for (int i = 0; i < 10; ++i)\n" * 3,
          "Größe, naïve, 東京 и Москва, ½ × ²; e\u0301 \u00a0 \u3000 \U0001f600 " * 3]
TEXTS = ["", " ", "the quick fox", "  the\n\n\tfox  ", "it's WE'LL 'twas I'd", "12345 1/2 \u0663\u0664 \u2167",
         "Größe 東京\u3000 Москва e\u0301 \U0001f600\U0001f469\u200d\U0001f680", "x\r\ny\r\n\r\n  z ", "\u0000\u0085\u00a0 \u2028",
         "a<|endoftext|>b <mask> c<mask>  <|endoftext|>", "tensor handle; " * 5, "<0x41> \u2581 <s>"]
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(pre, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=330, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A <mask>", special_tokens=[
        ("<|endoftext|>", 0), ("<mask>", tokenizer.token_to_id("<mask>"))])
    return json.loads(tokenizer.to_str())


def llama2():
    mark = "\u2581"
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=mark)
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=330, special_tokens=special,
                                                              limit_alphabet=40, show_progress=False))
    data = json.loads(tokenizer.to_str())
    data["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": mark}, {"type": "Replace", "pattern": {"String": " "}, "content": mark}]}
    data["pre_tokenizer"] = None
    data["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": mark}, "content": " "}, {"type": "ByteFallback"},
        {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    data["model"]["vocab"].update({t: i for i, t in enumerate(special)})
    return data


split = pre_tokenizers.Split(Regex(CL100K), behavior="isolated")
cases = []
for name, data in [
        ("gpt2", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))),
        ("llama3", byte_level(pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False,
                                                                                       use_regex=False)]),
                              ignore_merges=True)),
        ("llama2", llama2())]:
    tokenizer = Tokenizer.from_str(json.dumps(data))
    cases.append({"name": name, "tokenizer": data, "texts": [
        {"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids,
         "with_special": tokenizer.encode(text).ids,
         "decoded": tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False)}
        for text in TEXTS]})
(HERE / "tokenizers.json").write_text(json.dumps(cases, separators=(",", ":"), ensure_ascii=True) + "\n")
