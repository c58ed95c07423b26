#!/usr/bin/env python3
"""Compares the byte-pair tokenizers with Hugging Face's `tokenizers`, and with tiktoken where it is installed,
on texts made at random out of all of Unicode.

usage: tests/peers/tokenizers_peer.py GPT_PROGRAM [--texts N] [--seed N] [--corpus FILE...]

The vocabularies are trained here, on random text, on this repository's documents and sources and on FILEs, so that
nothing needs to be fetched; they have the pre-tokenizers, normalizers and decoders of GPT-2, Llama 2, Llama 3 and
Qwen, as tokenizer.json and as vocab.json with merges.txt. Characters that the table's version of Unicode does not
assign are left out: newer versions may call them letters. Bytes that are not UTF-8, which the peers do not take, must
come back as they were.
"""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


class Texts:
    """Random texts: words, spaces of all kinds, contractions, digits, scripts, marks, emoji, added tokens."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.assigned = [c for c in range(0x110000)
                         if unicodedata.category(chr(c)) not in ("Cs", "Cn", "Co")]
        self.words = [w for path in sorted(ROOT.glob("*.md")) for w in path.read_text().split()][:4000]

    def piece(self):
        r = self.random
        kind = r.randrange(12)
        if kind < 4:
            return r.choice(self.words)
        if kind == 4:
            return r.choice([" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\x85", "   \n\n  "])
        if kind == 5:
            return r.choice(["'s", "'T", "'re", "'LL", "'ve", "'d", "'\u017f", "'x", "''", "\u2019s"])
        if kind == 6:
            return "".join(r.choice("0123456789\u0663\u00b2\u2167\u00bd") for _ in range(r.randrange(1, 8)))
        if kind == 7:
            return r.choice(["<|endoftext|>", "<s>", "</s>", "<|x", "<mask>", "<|endoftext|", "<0x41>", "\u2581"])
        if kind == 8:
            return "".join(chr(r.choice(self.assigned)) for _ in range(r.randrange(1, 6)))
        if kind == 9:
            return "".join(chr(r.randrange(0x20, 0x250)) for _ in range(r.randrange(1, 6)))
        if kind == 10:
            return r.choice(["...", "!!", "->", "//", "\U0001f469\u200d\U0001f680", "e\u0301", "\ufeff", "\0"])
        return chr(r.randrange(0x4E00, 0x9FFF)) * r.randrange(1, 4)

    def not_utf8(self, pieces):
        """Texts with bytes in between that belong to no character, or to half of one."""
        r = self.random
        out = bytearray(self.text(pieces).encode())
        for _ in range(1 + len(out) // 20):
            at = r.randrange(len(out) + 1)
            if r.random() < 0.5 and at < len(out):
                del out[at]
            else:
                out[at:at] = bytes(r.choice([0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xF0, 0xF5, 0xFF])
                                   for _ in range(r.randrange(1, 4)))
        return bytes(out)

    def text(self, pieces):
        out = []
        for _ in range(pieces):
            out.append(self.piece())
            if self.random.random() < 0.6:
                out.append(" ")
        return "".join(c for c in "".join(out) if unicodedata.category(c) not in ("Cn", "Cs", "Co"))


def byte_level(corpus, pre, vocab=2000, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def metaspace(corpus, legacy, scheme="always"):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    mark = "\u2581"
    if legacy:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(mark), normalizers.Replace(" ", mark)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=mark, prepend_scheme=scheme, split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(mark, " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=special, show_progress=False, limit_alphabet=150)
    # Words for training; the model itself cuts nothing.
    kept = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=mark, prepend_scheme="always", split=True)
    tokenizer.train_from_iterator(corpus, trainer)
    data = json.loads(tokenizer.to_str())
    if kept is None:
        data["pre_tokenizer"] = None
    else:
        data["pre_tokenizer"] = {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme, "split": False}
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    data["model"]["vocab"].update({t: i for i, t in enumerate(special)})
    return Tokenizer.from_str(json.dumps(data))


def variants(corpus):
    bl = pre_tokenizers.ByteLevel
    yield "gpt2", byte_level(corpus, bl(add_prefix_space=False))
    yield "gpt2 with a space before", byte_level(corpus, bl(add_prefix_space=True))
    for name, pattern, invert, behavior in [("llama3", CL100K, False, "isolated"), ("o200k", O200K, False, "isolated"),
                                            ("inverted", CL100K, True, "removed")]:
        split = pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=invert)
        pre = pre_tokenizers.Sequence([split, bl(add_prefix_space=False, use_regex=False)])
        yield name, byte_level(corpus, pre, ignore_merges=name == "llama3")
    digits = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bl(add_prefix_space=False)])
    yield "digits", byte_level(corpus, digits)
    added = byte_level(corpus, bl(add_prefix_space=False))
    from tokenizers import AddedToken
    added.add_tokens([AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("the", single_word=True),
                      AddedToken("<|x", normalized=False), AddedToken("<|", normalized=False)])
    added.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A",
                                                         special_tokens=[("<|endoftext|>", 0)])
    yield "added tokens", added
    yield "llama2", metaspace(corpus, legacy=True)
    yield "metaspace", metaspace(corpus, legacy=False)
    yield "metaspace first", metaspace(corpus, legacy=False, scheme="first")


def sources():
    for folder in "core autograd ops nn examples tests".split():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh", ".py", ".md", ".sh"):
                yield path.read_text()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--texts", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", nargs="*", default=[], type=pathlib.Path)
    args = parser.parse_args()
    texts = Texts(args.seed)
    corpus = [p.read_text() for p in sorted(ROOT.glob("*.md")) + args.corpus] + [*sources(), texts.text(3000)]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def ours(text, tokenizer=folder / "tokenizer.json"):
            (folder / "text").write_bytes(text if isinstance(text, bytes) else text.encode())
            subprocess.run([args.program, "tokenize", "--tokenizer", tokenizer, "--text", folder / "text",
                            "--out", folder / "out.bin", "--format", "llmc32", "--decoded", folder / "decoded"],
                           check=True, stdout=subprocess.DEVNULL)
            data = (folder / "out.bin").read_bytes()[1024:]
            return list(struct.unpack(f"<{len(data) // 4}I", data)), (folder / "decoded").read_bytes()

        for name, tokenizer in variants(corpus):
            tokenizer.save(str(folder / "tokenizer.json"))
            forms = {name: folder / "tokenizer.json"}
            if name == "gpt2":
                (folder / "gpt2").mkdir()
                tokenizer.model.save(str(folder / "gpt2"))
                forms["gpt2, vocab.json and merges.txt"] = folder / "gpt2"
            for form, file in forms.items():
                bad = count = 0
                for n in range(args.texts):
                    bad_text, tokens = one_text(form, n, texts, tokenizer, lambda text: ours(text, file))
                    bad += bad_text
                    count += tokens
                print(f"{form}: {args.texts} texts, {count} tokens, {bad} differ", flush=True)
                failures += bad
        failures += with_tiktoken(corpus, texts, folder, ours, args.texts)
    sys.exit(1 if failures else 0)


def one_text(name, n, texts, tokenizer, ours):
    """Whether a text differs, and its tokens."""
    text = texts.text(4 ** (n % 6))
    mine, decoded = ours(text)
    theirs = tokenizer.encode(text, add_special_tokens=False).ids
    back = tokenizer.decode(theirs, skip_special_tokens=False)
    if mine != theirs:
        at = next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))
        print(f"{name}: text {n} differs at token {at}: ours {mine[at:at + 5]}, theirs {theirs[at:at + 5]} "
              f"({tokenizer.decode(theirs[max(0, at - 5):at + 5])!r})")
        return True, len(theirs)
    if "digit" not in name and decoded.decode(errors="replace") != back:
        print(f"{name}: text {n} is decoded to {decoded.decode(errors='replace')[:60]!r}, theirs {back[:60]!r}")
        return True, len(theirs)
    if name.split(",")[0] in ("gpt2", "llama3", "o200k"):
        raw = texts.not_utf8(4 ** (n % 6))
        if ours(raw)[1] != raw:
            print(f"{name}: bytes {raw[:60]!r} come back as {ours(raw)[1][:60]!r}")
            return True, len(theirs)
    return False, len(theirs)


def with_tiktoken(corpus, texts, folder, ours, count):
    try:
        import tiktoken
    except ImportError:
        print("tiktoken is not installed: left out")
        return 0
    stand_ins = {}
    extra = 0
    for b in range(256):
        if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174:
            stand_ins[chr(b)] = b
        else:
            stand_ins[chr(256 + extra)] = b
            extra += 1
    failures = 0
    for name, pattern in [("gpt2", GPT2), ("cl100k", CL100K), ("o200k", O200K)]:
        split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
        pre = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tokenizer = byte_level(corpus, pre, ignore_merges=True)
        tokenizer.save(str(folder / "tokenizer.json"))
        vocab = json.loads(tokenizer.to_str())["model"]["vocab"]
        # tiktoken merges by the rank of the result: single bytes first, then in the order of training.
        ranks = {bytes(stand_ins[c] for c in t): i for t, i in vocab.items() if t != "<|endoftext|>"}
        encoding = tiktoken.Encoding("trained here", pat_str=pattern, mergeable_ranks=ranks,
                                     special_tokens={"<|endoftext|>": 0})
        bad = tokens = 0
        for n in range(count):
            text = texts.text(4 ** (n % 6))
            theirs = encoding.encode(text, allowed_special="all")
            bad += ours(text) != (theirs, encoding.decode_bytes(theirs))
            tokens += len(theirs)
        print(f"tiktoken, {name}: {count} texts, {tokens} tokens, {bad} differ", flush=True)
        failures += bad
    return failures


main()
