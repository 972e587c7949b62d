#!/usr/bin/env python3
"""Makes what llama_decode_test compares with: one folder for each model, with the float64 reference's tokens and logits.

usage: make_references.py OUT_DIR

Small random models of several shapes and weight types, and the model that the environment variable RONDO_TEST_MODEL names (a GGUF). What is
there already is kept. Exits with 77 (skipped) where numpy or gguf is missing.
"""

import os
import pathlib
import shutil
import subprocess
import sys

try:
    import gguf  # noqa: F401
    import numpy  # noqa: F401
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "reference"

# Grouped-query ratios 1, 2, 3 and 4, head dimensions 64 and 128, tied and separate output, every weight type.
WIDE = ["--feed-forward", "1280", "--unused-tokens", "10"]
TINY_MODELS = {
    "tiny_f32_64": ["--type", "F32", "--head-dim", "64", "--heads", "4", "--kv-heads", "4"],
    "tiny_f16_128_separate": ["--type", "F16", "--head-dim", "128", "--heads", "4", "--kv-heads", "2", "--separate-output"],
    "tiny_q8_0_64_grouped": ["--type", "Q8_0", "--head-dim", "64", "--heads", "6", "--kv-heads", "2"],
    "tiny_q4_1_128_mixed": ["--type", "Q4_1", "--embedding-type", "F16", "--head-dim", "128", "--heads", "4", "--kv-heads", "1",
                            "--separate-output"],
    "tiny_bf16_64": ["--type", "BF16", "--head-dim", "64", "--heads", "4", "--kv-heads", "2"],
    "tiny_q4_0_128": ["--type", "Q4_0", "--head-dim", "128", "--heads", "2", "--kv-heads", "1"],
    "tiny_q6_k_64_mixed": ["--type", "Q6_K", "--embedding-type", "Q4_0", "--head-dim", "64", "--heads", "8", "--kv-heads", "4",
                           "--feed-forward", "512", "--separate-output"],
    "tiny_f16_64_linear": ["--type", "F16", "--head-dim", "64", "--heads", "2", "--kv-heads", "1", "--rope-scaling", "linear"],
    "tiny_bf16_128_llama3": ["--type", "BF16", "--head-dim", "128", "--heads", "4", "--kv-heads", "2", "--rope-scaling", "llama3",
                             "--separate-output"],
    "tiny_f16_64_long": ["--type", "F16", "--head-dim", "64", "--heads", "2", "--kv-heads", "1", "--layers", "1", "--feed-forward", "128",
                         "--context", "8192", "--rope-scaling", "llama3", "--rope-original-context", "1024", "--prompt-lengths", "8180"],
    # Wide enough for the persistent kernel.
    "wide_f16_64": ["--type", "F16", "--head-dim", "64", "--heads", "8", "--kv-heads", "2", *WIDE],
    "wide_bf16_128_llama3": ["--type", "BF16", "--head-dim", "128", "--heads", "6", "--kv-heads", "2", "--rope-scaling", "llama3", "--separate-output", *WIDE],
    "wide_q8_0_64": ["--type", "Q8_0", "--head-dim", "64", "--heads", "8", "--kv-heads", "1", "--rope-scaling", "linear", *WIDE],
    "wide_q4_0_128": ["--type", "Q4_0", "--head-dim", "128", "--heads", "4", "--kv-heads", "4", *WIDE],
    "wide_f16_128_long": ["--type", "F16", "--head-dim", "128", "--heads", "2", "--kv-heads", "1", "--layers", "1", "--context", "8192",
                          "--prompt-lengths", "8180", *WIDE],
}
# The same weights as safetensors, one file or shards: the same logits.
HUGGING_FACE = {"tiny_f32_64": 1, "tiny_f16_64_linear": 1, "tiny_bf16_128_llama3": 3, "wide_bf16_128_llama3": 1}
STEPS = {"tiny": "48", "tiny_f16_64_long": "8192", "wide_f16_128_long": "8192", "model": "128"}


def run(*arguments):
    subprocess.run([sys.executable, *map(str, arguments)], check=True)


def main():
    out = pathlib.Path(sys.argv[1])
    for name, options in TINY_MODELS.items():
        folder = out / name
        copy = out / f"{name}_safetensors"
        made = [folder, copy] if name in HUGGING_FACE else [folder]
        if all((each / "logits_0.npy").exists() for each in made):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        if name in HUGGING_FACE:
            options = [*options, "--hugging-face", copy / "model", "--shards", HUGGING_FACE[name]]
        run(REFERENCE / "make_tiny_gguf.py", folder / "model.gguf", "--prompts", folder / "prompts.json", *options)
        run(REFERENCE / "llama_reference.py", folder / "model.gguf", folder, "--steps", STEPS.get(name, STEPS["tiny"]), "--prompts", folder / "prompts.json")
        if name in HUGGING_FACE:
            for file in folder.glob("*_?.npy"):
                shutil.copy(file, copy)
            (copy / "model.path").write_text("model\n")
    model = os.environ.get("RONDO_TEST_MODEL")
    if not model:
        print("RONDO_TEST_MODEL names no GGUF: the small random models only")
        return
    folder = out / "model"
    link = folder / "model.path"
    if (folder / "logits_2.npy").exists() and link.exists() and link.read_text().strip() == model:
        return
    folder.mkdir(parents=True, exist_ok=True)
    run(REFERENCE / "llama_reference.py", model, folder, "--steps", STEPS["model"])
    link.write_text(model + "\n")


if __name__ == "__main__":
    main()
