#!/usr/bin/env python3
"""Writes what PyPI's tokenizers makes of varied strings with a GGUF file's own vocabulary, for bpe_tokenizer_test.

usage: make_bpe_golden.py MODEL.gguf OUT.json [--random N]    (needs PyPI's gguf and tokenizers)
"""

import argparse
import json
import random

import gguf
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

STRINGS = [
    "", " ", "  ", "\n", "\n\n", " \n ", "\t\tx", "a", "Hello, world!", "Once upon a time", " leading", "trailing ", "trailing  ",
    "two  spaces   three", "It's we're I've I'm they'll he'd don't 'tis 'S 'LL o'clock''s", "1234567890", "pi is 3.14159, e 2.71828",
    "a1b22c333", "year 2026 , 12 34", "naïve café Ærøskøbing", "Привет, мир! 123", "你好,世界。今天是2026年", "こんにちは世界", "안녕하세요 세계",
    "مرحبا بالعالم ١٢٣", "नमस्ते दुनिया १२३", "😀👩‍👩‍👧‍👦🏳️‍🌈 emoji", "½ ² ³ Ⅷ ⑨ numbers", "\u00a0nbsp\u2003em\u3000ideographic", "a\u200bb zero width",
    "e\u0301 combining", "def f(x):\n    return x ** 2  # squared\n", "for (int i = 0; i < n; ++i) { a[i] += b[i]; }\n\t\t}\r\n",
    "https://example.org/a?b=c&d=%20#e", "{\"key\": [1, 2.5e-3, null]}", "<|im_start|>user\nWhat is 2+2?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|", "a<|endoftext|>b", "<|im_start|><|im_start|> <|im_end|>", "!!!???...---___", "ALLCAPS mixedCase snake_case",
    "\x00\x01\x7f control", "x" * 60, "supercalifragilisticexpialidocious antidisestablishmentarianism",
]


def random_strings(count):
    chooser = random.Random(3)
    pieces = ["the", " quick", "brown ", "  ", "\n", "\t", " ", "7", "42", "'s", "'ll", "'", "é", "ß", "Ω", "я", "中", "文", "😀", "🇩🇪", "½",
              "١", "\u00a0", "\u3000", "\u2028", "\r\n", ".", ",", "!", "<|im_start|>", "<|", "|>", "_", "(", ")", "=", "==", "->", "\u0301", "𝔘", "𝟘"]
    for _ in range(count):
        if chooser.random() < 0.5:
            yield "".join(chooser.choice(pieces) for _ in range(chooser.randint(1, 20)))
        else:
            # Assigned before Unicode 14, so that the two tables agree; no surrogates.
            yield "".join(chr(chooser.choice([chooser.randint(0, 0x7f), chooser.randint(0x80, 0x24f), chooser.randint(0x370, 0x52f),
                                              chooser.randint(0x2000, 0x27bf), chooser.randint(0x4e00, 0x9fff),
                                              chooser.randint(0x1f300, 0x1f64f)])) for _ in range(chooser.randint(1, 30)))


def load(path):
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    special = {gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED}
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pre = fields["tokenizer.ggml.pre"].contents()
    tokenizer.pre_tokenizer = {"smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level]),
                               "gpt-2": byte_level}[pre]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token, kind in zip(tokens, types) if kind in special])
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="as many random strings too")
    arguments = parser.parse_args()
    tokenizer = load(arguments.model)
    cases = [{"text": text, "tokens": tokenizer.encode(text).ids} for text in [*STRINGS, *random_strings(arguments.random)]]
    with open(arguments.out, "w", encoding="utf-8") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
