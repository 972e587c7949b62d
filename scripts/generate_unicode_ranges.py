#!/usr/bin/env python3
"""Writes cli/unicode_ranges.inc: the code points of Unicode's general categories L and N, as Python's unicodedata has them."""

import pathlib
import sys
import unicodedata


def ranges(category):
    """[(first, last)] of all code points whose general category begins with `category`."""
    found = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] != category:
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, category):
    lines = [f"constexpr CodePointRange {name}[] = {{"]
    line = "   "
    for first, last in ranges(category):
        entry = f" {{0x{first:x}, 0x{last:x}}},"
        if len(line) + len(entry) > 110:
            lines.append(line)
            line = "   "
        line += entry
    return "\n".join([*lines, line, "};\n"])


def main():
    path = pathlib.Path(__file__).resolve().parent.parent / "cli" / "unicode_ranges.inc"
    path.write_text(
        f"// Made by scripts/generate_unicode_ranges.py from Unicode {unicodedata.unidata_version}. Inclusive, ascending.\n"
        + table("letters", "L") + table("numbers", "N"))


if __name__ == "__main__":
    main()
