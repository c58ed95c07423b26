"""Tokenizers and language models."""
import numpy as np
import pytest

import cotangent as ct
from cotangent import models, text

TEXT = "the cat sat on the mat. "
SMALL = {"gpt2": lambda: models.Gpt2(vocab_size=16, n_positions=16, n_embd=16, n_layer=2, n_head=2, eos_token_ids=[3]),
         "llama": lambda: models.Llama(vocab_size=16, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                                       num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
                                       rope_scaling={"factor": 4.0})}


def test_text_and_back(tmp_path):
    tokenizer = text.CharTokenizer.from_text(TEXT + "\u00e9")
    ids = tokenizer.encode(TEXT)
    assert tokenizer.decode(ids) == TEXT and max(ids) < tokenizer.vocab_size
    assert tokenizer.token_bytes(tokenizer.encode("\u00e9")[0]) == "\u00e9".encode()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    again = text.load_tokenizer(str(tmp_path))
    assert isinstance(again, text.CharTokenizer) and again.encode(TEXT) == ids
    with pytest.raises(ct.ValueError):
        tokenizer.encode("X")
    with pytest.raises(ct.IndexError):
        tokenizer.decode([99])
    with pytest.raises(OSError):
        text.load_tokenizer(str(tmp_path / "nothing"))


@pytest.mark.parametrize("kind", SMALL)
def test_a_model_learns_writes_and_is_read_again(kind, tmp_path):
    model = SMALL[kind]()
    tokenizer = text.CharTokenizer.from_text(TEXT)
    ids = ct.tensor([tokenizer.encode(TEXT[i:i + 16]) for i in range(8)])
    adam = ct.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        adam.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        adam.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    model.eval()
    prompt, seen = ids[:1, :4], []
    written = model.generate(prompt, max_new_tokens=5, temperature=0.0,
                             on_token=lambda t: seen.append(t.item()) or True)
    with ct.no_grad():
        slow = prompt
        for _ in range(5):
            slow = ct.cat([slow, ct.argmax(model(slow)[:, -1], axis=-1, keepdim=True)], axis=1)
        cache = model.make_cache(1)
        first, second = model(ids[:1, :4], cache), model(ids[:1, 4:7], cache)
        assert cache.length == 7
        both = ct.cat([first, second], axis=1)
        assert np.allclose(both.numpy(), model(ids[:1, :7]).numpy(), atol=1e-4)
    assert written.tolist() == slow.tolist() and seen == written[0, 4:].tolist()
    models.save_huggingface(str(tmp_path / "model"), model)
    again = models.load_huggingface(str(tmp_path / "model"))
    assert type(again) is type(model) and not again.training and again.end_tokens == model.end_tokens
    assert np.array_equal(again(prompt).detach().numpy(), model(prompt).detach().numpy())


def test_a_generator_draws_what_is_written():
    model, prompt = SMALL["llama"]().eval(), ct.tensor([[1, 2]])
    written = [model.generate(prompt, max_new_tokens=8, generator=ct.Generator(seed)).tolist() for seed in (3, 3, 4, 5)]
    assert written[0] == written[1] and len({str(one) for one in written}) > 1
    cache = model.make_cache(1, capacity=8)
    assert model.hidden(prompt).shape == (1, 2, 16) and (cache.length, cache.capacity, cache.batch) == (0, 8, 1)
    with ct.no_grad():
        model.hidden(prompt, cache)
        assert cache.length == 2 and model(prompt[:, :1], None).shape == (1, 1, 16) and model.hidden(prompt, cache=None).ndim == 3
    cache.truncate(1)
    assert cache.length == 1 and cache.nbytes > 0


@pytest.mark.parametrize("call, error, words", [
    (lambda: models.Gpt2(n_head=5), ct.ShapeError, "n_head"),
    (lambda: models.Gpt2(heads=5), TypeError, "heads"),
    (lambda: models.Llama(rope_scaling=3), TypeError, "a dict"),
    (lambda: SMALL["gpt2"]()(ct.ones(1, 4)), ct.DTypeError, "token"),
    (lambda: SMALL["gpt2"]()(ct.tensor([[99]])), ct.IndexError, "99"),
    (lambda: SMALL["gpt2"]().generate(ct.tensor([[1]]), top_p=2.0), ct.ValueError, "top_p"),
    (lambda: SMALL["gpt2"]().generate(ct.tensor([[1]]), on_token=3), TypeError, "a function"),
    (lambda: SMALL["gpt2"]().generate(ct.tensor([[1]]), on_token=lambda t: 1 / 0), ZeroDivisionError, "zero"),
    (lambda: models.load_huggingface("/nowhere"), ct.IoError, "nowhere"),
])
def test_bad_calls(call, error, words):
    with pytest.raises(error, match=words):
        call()
    assert SMALL["gpt2"]()(ct.tensor([[1, 2]])).shape == (1, 2, 16)
