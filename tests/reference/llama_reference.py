#!/usr/bin/env python3
"""A Llama-architecture GGUF in float64 NumPy, straightforward enough to be believed: the reference that decoding is compared with.

usage: llama_reference.py MODEL.gguf OUT_DIR [--steps 128] [--prompts prompts.json]    (needs PyPI's gguf and numpy)

prompts.json is a list of {"text": …, "tokens": [token, …]}; only the tokens are used. For each prompt p, in order, this writes
  OUT_DIR/tokens_p.npy  int32 [steps + 1]: the token that each step is fed (the prompt's, then the greedy ones), and the last argmax
  OUT_DIR/logits_p.npy  float32 [steps, vocabulary]: what each step gives
"""

import argparse
import json
import os
import pathlib
import sys

# OpenBLAS's threads wait by spinning: beside other work (a build, other tests) they cost ten times what they save here. NumPy
# reads this when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gguf
import numpy as np


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        fields = reader.fields

        def value(key, default=None):
            if key in fields:
                return fields[key].contents()
            if default is None:
                sys.exit(f"{path}: no metadata \"{key}\"")
            return default

        if value("general.architecture") != "llama":
            sys.exit(f"{path}: expected the architecture \"llama\", got \"{value('general.architecture')}\"")
        scaling = value("llama.rope.scaling.type", "none")
        if scaling not in ("none", "linear"):
            sys.exit(f"{path}: rope scaling \"{scaling}\" is not part of this reference")
        self.layers = value("llama.block_count")
        self.heads = value("llama.attention.head_count")
        self.kv_heads = value("llama.attention.head_count_kv", self.heads)
        self.epsilon = value("llama.attention.layer_norm_rms_epsilon")
        width = value("llama.embedding_length")
        self.head_dim = value("llama.attention.key_length", width // self.heads)
        rotated = value("llama.rope.dimension_count", self.head_dim)
        base = value("llama.rope.freq_base", 10000.0)
        self.frequencies = base ** (-np.arange(0, rotated, 2, dtype=np.float64) / rotated)
        if "rope_freqs.weight" in self.tensors:
            self.frequencies /= self.weight("rope_freqs.weight")
        if scaling == "linear":
            self.frequencies /= value("llama.rope.scaling.factor")
        self.embedding = self.weight("token_embd.weight")
        self.output = self.weight("output.weight") if "output.weight" in self.tensors else self.embedding
        self.output_norm = self.weight("output_norm.weight")
        self.blocks = [self.block(layer) for layer in range(self.layers)]

    def weight(self, name):
        tensor = self.tensors[name]
        shape = [int(extent) for extent in reversed(tensor.shape)]
        return gguf.dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float64)

    def block(self, layer):
        names = ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"]
        return {name: self.weight(f"blk.{layer}.{name}.weight") for name in names}

    def norm(self, x, weight):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.epsilon) * weight

    def rope(self, x, positions):
        """x[tokens, heads, head_dim]: rotates the pairs (x[2i], x[2i + 1]) by position * frequency[i]."""
        angles = positions[:, None, None] * self.frequencies
        cos, sin = np.cos(angles), np.sin(angles)
        rotated = x.copy()
        count = 2 * len(self.frequencies)
        even, odd = x[..., 0:count:2], x[..., 1:count:2]
        rotated[..., 0:count:2] = even * cos - odd * sin
        rotated[..., 1:count:2] = even * sin + odd * cos
        return rotated


class Sequence:
    """One prompt's tokens and its KV cache."""

    def __init__(self, model, prompt, steps):
        self.tokens = list(prompt)
        self.length = 0
        shape = (model.layers, steps, model.kv_heads, model.head_dim)
        self.keys, self.values = np.zeros(shape), np.zeros(shape)
        self.logits = []


def attend(model, sequence, layer, q, k, v):
    """Causal attention of the new tokens (q, k, v: [tokens, heads, head_dim]) over the cache and each other."""
    first, last = sequence.length, sequence.length + len(q)
    positions = np.arange(first, last)
    sequence.keys[layer, first:last] = model.rope(k, positions)
    sequence.values[layer, first:last] = v
    group = model.heads // model.kv_heads
    keys = np.repeat(sequence.keys[layer, :last], group, axis=1)
    values = np.repeat(sequence.values[layer, :last], group, axis=1)
    scores = np.einsum("thd,shd->hts", model.rope(q, positions), keys) / np.sqrt(model.head_dim)
    scores = np.where(np.arange(last) <= positions[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("hts,shd->thd", weights, values).reshape(len(q), -1)


def forward(model, sequences, counts):
    """Feeds each sequence its next count tokens and returns the logits of all of them, one below the other.

    All sequences share one pass over the weights; only attention keeps them apart."""
    fed = [sequence.tokens[sequence.length:sequence.length + count] for sequence, count in zip(sequences, counts)]
    bounds = np.cumsum(counts)[:-1]
    x = model.embedding[np.concatenate(fed)]
    for layer, block in enumerate(model.blocks):
        h = model.norm(x, block["attn_norm"])
        q, k, v = ((h @ block[name].T).reshape(len(h), -1, model.head_dim) for name in ("attn_q", "attn_k", "attn_v"))
        parts = zip(sequences, np.split(q, bounds), np.split(k, bounds), np.split(v, bounds))
        attended = np.concatenate([attend(model, sequence, layer, *part) for sequence, *part in parts])
        x = x + attended @ block["attn_output"].T
        h = model.norm(x, block["ffn_norm"])
        gate = h @ block["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ block["ffn_up"].T)) @ block["ffn_down"].T
    for sequence, count in zip(sequences, counts):
        sequence.length += count
    return model.norm(x, model.output_norm) @ model.output.T


PIECE = 256  # tokens of a prompt in one pass: what attention's memory grows with


def decode(model, prompts, steps):
    """Runs all prompts, each with its greedy continuation, to `steps` tokens fed."""
    sequences = [Sequence(model, prompt[:steps], steps) for prompt in prompts]
    while active := [sequence for sequence in sequences if sequence.length < steps]:
        counts = [min(len(sequence.tokens) - sequence.length, PIECE) for sequence in active]
        rows = np.split(forward(model, active, counts), np.cumsum(counts)[:-1])
        for sequence, logits in zip(active, rows):
            sequence.logits.append(logits.astype(np.float32))
            if sequence.length == len(sequence.tokens):
                sequence.tokens.append(int(np.argmax(logits[-1])))
    return sequences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out_dir", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--prompts", type=pathlib.Path, default=pathlib.Path(__file__).with_name("prompts.json"))
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps: expected 1 or more")
    prompts = [prompt["tokens"] for prompt in json.loads(arguments.prompts.read_text())]
    model = Model(arguments.model)
    for index, prompt in enumerate(prompts):
        if not prompt or not all(0 <= token < len(model.embedding) for token in prompt):
            sys.exit(f"{arguments.prompts}: prompt {index}: expected tokens of 0 to {len(model.embedding) - 1}, one at least")
    arguments.out_dir.mkdir(parents=True, exist_ok=True)
    for index, sequence in enumerate(decode(model, prompts, arguments.steps)):
        np.save(arguments.out_dir / f"tokens_{index}.npy", np.array(sequence.tokens, dtype=np.int32))
        np.save(arguments.out_dir / f"logits_{index}.npy", np.concatenate(sequence.logits))


if __name__ == "__main__":
    main()
