"""A language model made by hand, and llama.cpp's own server in a process of its own to run it.

The model is a Markov chain in the clothes of a transformer. Each token's embedding is a unit
vector, attention and feed-forward weights are zero, so the last layer sees nothing but the
present token, and the row of the output matrix for the next token holds the logarithm of its
probability. The chat template ends every prompt with one token, whose row is ``EMISSIONS``;
from there each emission is a chain of tokens of its own. What comes out is known, and it comes
through a real tokenizer, a real sampler and real HTTP.
"""

from __future__ import annotations

import math
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, cast

import gguf
import numpy as np
import numpy.typing as npt
import xllamacpp

__all__ = ["EMISSIONS", "TEMPLATE", "Emission", "is_likely", "llama_server", "write_model"]


class Emission(NamedTuple):
    """A reply of the model, its probability, and what its blocks are under the preset ksi.

    *strict* blocks are calls as they stand, *repaired* ones after a repair, *rejected* ones
    are none; the three do not count prose.
    """

    name: str
    probability: float
    text: str
    strict: int = 0
    repaired: int = 0
    rejected: int = 0


_CLEAN: Final = '{"event": "agent:status", "data": {"status": "ready-7"}}'

EMISSIONS: Final = (
    Emission("clean", 0.48, f"I am ready.\n{_CLEAN}\nDone.", strict=1),
    Emission(
        "two",
        0.12,
        f'First\n{_CLEAN}\nand then\n{{"event": "agent:progress", "data": {{"progress": 50}}}}\n',
        strict=2,
    ),
    Emission("prose", 0.08, "Nothing to report."),
    Emission("braces", 0.04, "The set {1, 2} and the word {event} are no call."),
    Emission(
        "trailing_comma",
        0.10,
        'Ready:\n{"event": "agent:status", "data": {"status": "ready-7",}}\n',
        repaired=1,
    ),
    Emission(
        "python_literal",
        0.08,
        'So:\n{"event": "agent:progress", "data": {"progress": None}}\n',
        repaired=1,
    ),
    Emission(
        "missing_closer",
        0.05,
        'Here it is:\n{"event": "agent:status", "data": {"status": "ready-7"}',
        repaired=1,
    ),
    Emission(
        "open_string",
        0.05,
        'Look:\n{"event": "agent:status", "data": {"status": "rea',
        rejected=1,
    ),
)

_UNKNOWN, _BOS, _EOS, _SPEAK = range(4)
_SPECIAL: Final = ("<unk>", "<s>", "</s>", "<|speak|>")
_FIRST_WORD: Final = len(_SPECIAL) + 256
TEMPLATE: Final = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}<|speak|>"
_HEAD: Final = 32
_NEVER: Final = -1e4
_PIECE: Final = 12
_SLOTS: Final = 4
_CONTEXT: Final = 32_768


@contextmanager
def llama_server(
    directory: Path, emissions: Sequence[Emission] = EMISSIONS, template: str = TEMPLATE
) -> Iterator[str]:
    """Serve the model that says *emissions*; the value is a base_url for the provider ``openai``.

    *template* makes a conversation into a prompt, and ends it with ``<|speak|>``. The server ends
    with the block, and by itself when this process dies.
    """
    model = directory / "tiny.gguf"
    write_model(model, emissions, template)
    with (
        (directory / "llama.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, __file__, str(model)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as process,
    ):
        try:
            yield f"{_address(process, Path(log.name))}/v1"
        finally:
            process.kill()


def is_likely(count: int, probability: float, drawn: int) -> bool:
    """Say whether *count* of *drawn* is within four standard deviations (one in 16,000)."""
    spread = math.sqrt(drawn * probability * (1 - probability))
    return abs(count - drawn * probability) <= 4 * spread


def write_model(
    path: Path, emissions: Sequence[Emission] = EMISSIONS, template: str = TEMPLATE
) -> None:
    """Write the model that says *emissions* as a GGUF of about 2 MB."""
    chains = _chains(emissions)
    words = [word for chain in chains for word in chain]
    count = _FIRST_WORD + len(words)
    size = math.ceil(count / _HEAD) * _HEAD
    writer = gguf.GGUFWriter(path, "llama")
    _describe(writer, size, template)
    _add_vocabulary(writer, words)
    _add_weights(writer, _transitions(emissions, chains, count, size))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _chains(emissions: Sequence[Emission]) -> list[tuple[str, ...]]:
    """Return each emission in pieces, no piece twice: a token must know what it is part of."""
    taken: frozenset[str] = frozenset()
    chains = []
    for emission in emissions:
        chain = _split(emission.text, taken)
        assert chain is not None, f"{emission.name} cannot be told from the others"
        taken |= set(chain)
        chains.append(chain)
    return chains


def _split(text: str, taken: frozenset[str]) -> tuple[str, ...] | None:
    if not text:
        return ()
    for end in range(min(_PIECE, len(text)), len(text) + 1):
        piece = text[:end]
        if piece not in taken:
            rest = _split(text[end:], taken | {piece})
            if rest is not None:
                return (piece, *rest)
    return None


def _transitions(
    emissions: Sequence[Emission], chains: Sequence[tuple[str, ...]], count: int, size: int
) -> npt.NDArray[np.float32]:
    """Return the output matrix: in row *next* and column *present* the log of the probability."""
    matrix = np.full((count, size), _NEVER, dtype=np.float32)
    matrix[_EOS, :] = 0.0
    token = _FIRST_WORD
    for emission, chain in zip(emissions, chains, strict=True):
        _allow(matrix, _SPEAK, token, emission.probability)
        for present, following in pairwise(range(token, token + len(chain))):
            _allow(matrix, present, following, 1.0)
        token += len(chain)
    return matrix


def _allow(
    matrix: npt.NDArray[np.float32], present: int, following: int, probability: float
) -> None:
    matrix[_EOS, present] = _NEVER
    matrix[following, present] = math.log(probability)


def _describe(writer: gguf.GGUFWriter, size: int, template: str) -> None:
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_HEAD)
    writer.add_head_count(size // _HEAD)
    writer.add_head_count_kv(1)
    writer.add_rope_dimension_count(_HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_chat_template(template)


def _add_vocabulary(writer: gguf.GGUFWriter, words: Sequence[str]) -> None:
    kinds = gguf.TokenType
    octets = [f"<0x{octet:02X}>" for octet in range(256)]
    tokens = [*_SPECIAL, *octets, *(word.replace(" ", "▁") for word in words)]
    types = [kinds.UNKNOWN, *[kinds.CONTROL] * 3, *[kinds.BYTE] * 256, *[kinds.NORMAL] * len(words)]
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_unk_token_id(_UNKNOWN)
    writer.add_bos_token_id(_BOS)
    writer.add_eos_token_id(_EOS)
    writer.add_add_space_prefix(False)


def _add_weights(writer: gguf.GGUFWriter, output: npt.NDArray[np.float32]) -> None:
    count, size = output.shape
    ones = np.ones(size, dtype=np.float32)
    writer.add_tensor("token_embd.weight", np.eye(count, size, dtype=np.float32))
    writer.add_tensor("output.weight", output)
    # Normalising a unit vector multiplies it by the root of its size; this takes that back.
    writer.add_tensor("output_norm.weight", ones / np.float32(math.sqrt(size)))
    writer.add_tensor("blk.0.attn_norm.weight", ones)
    writer.add_tensor("blk.0.ffn_norm.weight", ones)
    for name, shape in (
        ("attn_q", (size, size)),
        ("attn_k", (_HEAD, size)),
        ("attn_v", (_HEAD, size)),
        ("attn_output", (size, size)),
        ("ffn_gate", (_HEAD, size)),
        ("ffn_up", (_HEAD, size)),
        ("ffn_down", (size, _HEAD)),
    ):
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, dtype=np.float32))


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the address that the server prints when it serves."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 30)
    address = process.stdout.readline().decode().strip() if ready else ""
    assert address, f"llama.cpp does not start: {log.read_text(errors='replace')[-2000:]}"
    return address


def _serve(model: str) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"tiny"}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = _SLOTS
    params.n_ctx = _SLOTS * _CONTEXT
    params.cpuparams.n_threads = 1
    params.warmup = False
    # Nothing may come between the probabilities and what is drawn.
    params.sampling.temp = 1.0
    params.sampling.top_k = 0
    params.sampling.top_p = 1.0
    params.sampling.min_p = 0.0
    server = xllamacpp.Server(params)
    sys.stdout.write(cast(str, server.listening_address) + "\n")
    sys.stdout.flush()
    # The pipe closes when whoever started us is gone, however that came about.
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    _serve(sys.argv[1])
