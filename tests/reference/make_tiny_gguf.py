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
    parser.add_argument("--prompts", type=pathlib.Path, help="also write prompts of the vocabulary's tokens, for llama_reference.py")
    parser.add_argument("--prompt-lengths", type=int, nargs="+", default=[1, 5, 17])
    parser.add_argument("--type", default="F32", choices=[kind.name for kind in TYPES], help="of the matrices; norms are F32")
    parser.add_argument("--embedding-type", choices=[kind.name for kind in TYPES], help="of token_embd and output; default: --type")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--feed-forward", type=int, default=384)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--unused-tokens", type=int, default=0, help="in the vocabulary, to bring its size to a round number")
    parser.add_argument("--rope-base", type=float, default=10000.0)
    parser.add_argument("--rope-scaling", choices=["linear", "llama3"], help="linear by 2, or Llama 3's by 8 as a tensor of factors")
    parser.add_argument("--rope-original-context", type=int, default=64, help="of llama3")
    parser.add_argument("--hugging-face", type=pathlib.Path, help="also write the model as safetensors with a config.json into this folder")
    parser.add_argument("--shards", type=int, default=1, help="of --hugging-face")
    parser.add_argument("--separate-output", action="store_true", help="an output.weight of its own instead of token_embd's")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def byte_alphabet():
    """GPT-2's characters for the bytes 0 to 255: each printable one itself, the others from U+0100 on."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    characters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [characters[byte] for byte in range(256)]


def add_vocabulary(writer, unused):
    """Returns the number of tokens."""
    merges = ["t h", "th e", "Ġ the", "Ġ a"]
    merged = [merge.replace(" ", "") for merge in merges]
    special = [f"<|unused_{i}|>" for i in range(unused)] + ["<|im_start|>", "<|im_end|>"]
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


def random_q6_k(random, rows, columns, scale):
    """Random quants and scales of 64 to 127, so that a weight's size is about `scale`: each block 128 + 64 bytes of quants, 16 scales, and a half."""
    blocks = rows * columns // 256
    quants = random.integers(0, 256, (blocks, 192), dtype=np.uint8)
    scales = random.integers(64, 128, (blocks, 16), dtype=np.uint8)
    factor = np.full((blocks, 1), scale / (96 * 18.5), np.float16).view(np.uint8)
    return np.concatenate([quants, scales, factor], axis=1).reshape(rows, -1)


def add_matrix(writer, random, name, rows, columns, kind):
    # Matrices keep a vector's size. Embeddings are small beside what the layers add, or a tied output would repeat its input.
    scale = 0.05 if name == "token_embd.weight" else columns ** -0.5
    values = (random.standard_normal((rows, columns)) * scale).astype(np.float32)
    try:
        data = gguf.quantize(values, kind)
    except NotImplementedError:
        if kind == TYPES.Q6_K:
            writer.add_tensor(name, random_q6_k(random, rows, columns, scale), raw_dtype=kind)
            return
        # A type that the package cannot make is one that nobody here reads either: only its size must be right.
        block_elements, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        data = random.integers(0, 256, (rows, columns // block_elements * block_bytes), dtype=np.uint8)
    writer.add_tensor(name, data, raw_dtype=kind)


LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


def llama3_factors(options):
    """What Llama 3's rule divides each frequency by."""
    frequencies = options.rope_base ** (-np.arange(0, options.head_dim, 2, dtype=np.float64) / options.head_dim)
    turns = options.rope_original_context * frequencies / (2 * np.pi)
    smooth = np.clip((turns - LLAMA3["low_freq_factor"]) / (LLAMA3["high_freq_factor"] - LLAMA3["low_freq_factor"]), 0, 1)
    return 1 / ((1 - smooth) / LLAMA3["factor"] + smooth)


NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head", "attn_norm": "input_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def hugging_face_tensors(options):
    """(name, type, shape, bytes) of the GGUF's tensors under their names there; rows of q and k in the order of the two halves."""
    for tensor in gguf.GGUFReader(options.out).tensors:
        *block, name, _ = tensor.name.split(".")
        if name == "rope_freqs":
            continue
        shape = [int(extent) for extent in reversed(tensor.shape)]
        data = np.array(tensor.data)
        if name in ("attn_q", "attn_k"):
            data = data.reshape(shape[0] // options.head_dim, options.head_dim // 2, 2, -1).swapaxes(1, 2)
        prefix = f"model.layers.{block[1]}." if block else ""
        kind = tensor.tensor_type.name
        data = data.tobytes()
        if kind == "F32" and options.type == "BF16":  # checkpoints have norms in the type of all
            kind, data = "BF16", gguf.quantize(np.frombuffer(data, np.float32), TYPES.BF16).tobytes()
        yield f"{prefix}{NAMES[name]}.weight", kind, shape, data


def write_hugging_face(options):
    options.hugging_face.mkdir(parents=True, exist_ok=True)
    tensors = list(hugging_face_tensors(options))
    places = {}
    for shard in range(options.shards):
        header, data = {"__metadata__": {"format": "pt"}}, b""
        file = "model.safetensors" if options.shards == 1 else f"model-{shard + 1:05}-of-{options.shards:05}.safetensors"
        for name, kind, shape, content in tensors[shard::options.shards]:
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
            places[name] = file
            data += content
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (options.hugging_face / file).write_bytes(len(text).to_bytes(8, "little") + text + data)
    if options.shards > 1:
        index = {"metadata": {}, "weight_map": places}
        (options.hugging_face / "model.safetensors.index.json").write_text(json.dumps(index))
    config = {"model_type": "llama", "num_hidden_layers": options.layers, "max_position_embeddings": options.context,
              "hidden_size": options.heads * options.head_dim, "intermediate_size": options.feed_forward,
              "num_attention_heads": options.heads, "num_key_value_heads": options.kv_heads, "rms_norm_eps": 1e-5,
              "rope_theta": options.rope_base, "rope_scaling": None, "tie_word_embeddings": not options.separate_output}
    if options.rope_scaling == "linear":
        config["rope_scaling"] = {"type": "linear", "factor": 2.0}
    if options.rope_scaling == "llama3":
        config["rope_scaling"] = {**LLAMA3, "rope_type": "llama3", "original_max_position_embeddings": options.rope_original_context}
    (options.hugging_face / "config.json").write_text(json.dumps(config, indent=2) + "\n")


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
    if options.rope_scaling == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(2.0)
    vocabulary = add_vocabulary(writer, options.unused_tokens)
    writer.add_vocab_size(vocabulary)

    def matrix(name, rows, columns, type_=kind):
        add_matrix(writer, random, name, rows, columns, type_)

    def norm(name):
        values = random.uniform(0.5, 1.5, width).astype(np.float32)
        if options.hugging_face and options.type == "BF16":  # the same ones in both
            values = gguf.dequantize(gguf.quantize(values, TYPES.BF16), TYPES.BF16)
        writer.add_tensor(name, values)

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
    if options.rope_scaling == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(options).astype(np.float32))
    if options.separate_output:
        matrix("output.weight", vocabulary, width, embedding_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if options.hugging_face:
        write_hugging_face(options)
    if options.prompts:
        prompts = [{"text": "", "tokens": random.integers(0, vocabulary, length).tolist()} for length in options.prompt_lengths]
        options.prompts.write_text(json.dumps(prompts) + "\n")


if __name__ == "__main__":
    main()
