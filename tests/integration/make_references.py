#!/usr/bin/env python3
"""Makes what llama_decode_test compares with: one folder for each model, with the float64 reference's tokens and logits.

usage: make_references.py OUT_DIR

Small random models of several shapes and weight types, and the model that the environment variable RONDO_TEST_MODEL names (a GGUF). What is
there already is kept. Exits with 77 (skipped) where numpy or gguf is missing.
"""

import os
import pathlib
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
TINY_MODELS = {
    "tiny_f32_64": ["--type", "F32", "--head-dim", "64", "--heads", "4", "--kv-heads", "4"],
    "tiny_f16_128_separate": ["--type", "F16", "--head-dim", "128", "--heads", "4", "--kv-heads", "2", "--separate-output"],
    "tiny_q8_0_64_grouped": ["--type", "Q8_0", "--head-dim", "64", "--heads", "6", "--kv-heads", "2"],
    "tiny_q4_1_128_mixed": ["--type", "Q4_1", "--embedding-type", "F16", "--head-dim", "128", "--heads", "4", "--kv-heads", "1",
                            "--separate-output"],
}
STEPS = {"tiny": "48", "model": "128"}


def run(*arguments):
    subprocess.run([sys.executable, *map(str, arguments)], check=True)


def main():
    out = pathlib.Path(sys.argv[1])
    for name, options in TINY_MODELS.items():
        folder = out / name
        if (folder / "logits_2.npy").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        run(REFERENCE / "make_tiny_gguf.py", folder / "model.gguf", "--prompts", folder / "prompts.json", *options)
        run(REFERENCE / "llama_reference.py", folder / "model.gguf", folder, "--steps", STEPS["tiny"], "--prompts", folder / "prompts.json")
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
