#!/usr/bin/env python3
"""Writes a small Llama-architecture GGUF with random weights and a byte-level vocabulary, for tests of shapes and types.

usage: make_tiny_gguf.py OUT.gguf [--prompts PROMPTS.json] [options]    (needs PyPI's gguf and numpy)
"""

import argparse
import json
import pathlib

import gguf
import numpy as np

TYPES = gguf.GGMLQuantizationType


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--prompts", type=pathlib.Path, help="also write three prompts of the vocabulary's tokens, for llama_reference.py")
    parser.add_argument("--type", default="F32", choices=[kind.name for kind in TYPES], help="of the matrices; norms are F32")
    parser.add_argument("--embedding-type", choices=[kind.name for kind in TYPES], help="of token_embd and output; default: --type")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--feed-forward", type=int, default=384)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--rope-base", type=float, default=10000.0)
    parser.add_argument("--rope-scaling", action="store_true", help="declare linear rope scaling by 2")
    parser.add_argument("--separate-output", action="store_true", help="an output.weight of its own instead of token_embd's")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def byte_alphabet():
    """GPT-2's characters for the bytes 0 to 255: each printable one itself, the others from U+0100 on."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [characters[byte] for byte in range(256)]


def add_vocabulary(writer):
    """Returns the number of tokens."""
    merges = ["t h", "th e", "Ġ the", "Ġ a"]
    merged = [merge.replace(" ", "") for merge in merges]
    special = ["<|im_start|>", "<|im_end|>"]
    tokens = byte_alphabet() + merged + special
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (256 + len(merged)) + [gguf.TokenType.CONTROL] * len(special))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(len(tokens) - 2)
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_add_bos_token(False)
    return len(tokens)


def add_matrix(writer, random, name, rows, columns, kind):
    # Matrices keep a vector's size. Embeddings are small beside what the layers add, or a tied output would repeat its input.
    scale = 0.05 if name == "token_embd.weight" else columns ** -0.5
    values = (random.standard_normal((rows, columns)) * scale).astype(np.float32)
    try:
        data = gguf.quantize(values, kind)
    except NotImplementedError:
        # A type that the package cannot make is one that nobody here reads either: only its size must be right.
        block_elements, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        data = random.integers(0, 256, (rows, columns // block_elements * block_bytes), dtype=np.uint8)
    writer.add_tensor(name, data, raw_dtype=kind)


def main():
    options = arguments()
    random = np.random.default_rng(options.seed)
    width, kv_width = options.heads * options.head_dim, options.kv_heads * options.head_dim
    kind = TYPES[options.type]
    embedding_kind = TYPES[options.embedding_type or options.type]

    writer = gguf.GGUFWriter(options.out, "llama")
    writer.add_name("tiny")
    writer.add_block_count(options.layers)
    writer.add_context_length(options.context)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(options.feed_forward)
    writer.add_head_count(options.heads)
    writer.add_head_count_kv(options.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(options.head_dim)
    writer.add_rope_freq_base(options.rope_base)
    if options.rope_scaling:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(2.0)
    vocabulary = add_vocabulary(writer)
    writer.add_vocab_size(vocabulary)

    def matrix(name, rows, columns, type_=kind):
        add_matrix(writer, random, name, rows, columns, type_)

    def norm(name):
        writer.add_tensor(name, random.uniform(0.5, 1.5, width).astype(np.float32))

    matrix("token_embd.weight", vocabulary, width, embedding_kind)
    for layer in range(options.layers):
        block = f"blk.{layer}."
        norm(block + "attn_norm.weight")
        matrix(block + "attn_q.weight", width, width)
        matrix(block + "attn_k.weight", kv_width, width)
        matrix(block + "attn_v.weight", kv_width, width)
        matrix(block + "attn_output.weight", width, width)
        norm(block + "ffn_norm.weight")
        matrix(block + "ffn_gate.weight", options.feed_forward, width)
        matrix(block + "ffn_up.weight", options.feed_forward, width)
        matrix(block + "ffn_down.weight", width, options.feed_forward)
    norm("output_norm.weight")
    if options.separate_output:
        matrix("output.weight", vocabulary, width, embedding_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if options.prompts:
        prompts = [{"text": "", "tokens": random.integers(0, vocabulary, length).tolist()} for length in (1, 5, 17)]
        options.prompts.write_text(json.dumps(prompts) + "\n")


if __name__ == "__main__":
    main()
