"""rondo captured: a saved picture of a graph, as table, DOT and JSON."""
import json
import unittest

from support import ProgramTest

POINTER = 0x7F0000100040
PICTURE = {
    "rondo_captured_graph": 1, "device": "cuda:0",
    "nodes": [{"path": "0", "kind": "kernel", "name": "_Z5scalePfi", "grid": [4, 1, 1], "block": [128, 1, 1], "shared_bytes": 0,
               "arguments": [{"offset": 0, "bytes": POINTER.to_bytes(8, "little").hex()}, {"offset": 8, "bytes": "07000000"}]},
              {"path": "1", "kind": "host", "problem": "it has no arguments that could be changed", "arguments": []}],
    "edges": [[0, 1]],
    "allocations": [{"begin": "0x7f0000100000", "bytes": 4096}],
    "sites": [{"node": 0, "argument": 0, "offset": 0, "value": hex(POINTER), "certain": True, "allocation": 0}],
}


class Captured(ProgramTest):
    def write(self, picture):
        path = self.folder / "graph.json"
        path.write_text(picture if isinstance(picture, str) else json.dumps(picture))
        return path

    def test_table(self):
        text = self.rondo("captured", self.write(PICTURE)).stdout
        for part in ["scale(float*, int)", "grid 4×1×1 block 128×1×1", "07000000", "allocation 0 + 0x40", "cannot be changed",
                     "0x7f0000100000  4096 bytes"]:
            self.assertIn(part, text)

    def test_dot(self):
        text = self.rondo("captured", self.write(PICTURE), "--dot").stdout
        self.assertRegex(text, r"^digraph captured \{\n")
        self.assertIn("n0 -> n1;", text)

    def test_json_is_what_was_read(self):
        self.assertEqual(self.rondo_json("captured", self.write(PICTURE)), PICTURE)

    def test_missing_file_is_refused(self):
        self.assert_refused("captured", self.folder / "none.json", says=["none.json", "cannot be read"])

    def test_directory_is_refused(self):
        self.assert_refused("captured", self.folder, says=str(self.folder))

    def test_empty_file_is_refused(self):
        self.assert_refused("captured", self.write(""), says="graph.json")

    def test_wrong_index_is_refused_with_its_place(self):
        self.assert_refused("captured", self.write({**PICTURE, "edges": [[0, 2]]}), says=["graph.json:1:", "[/edges/0/1]"])

    def test_keys_and_names_steer_no_terminal(self):
        self.assert_refused("captured", self.write({**PICTURE, "\x1b[2J": 1}), says=r"\x1b[2J")
        node = {"path": "0", "kind": "kernel", "name": "\x1b[31mred", "arguments": []}
        text = self.rondo("captured", self.write({**PICTURE, "nodes": [node], "edges": [], "sites": []})).stdout
        self.assertIn(r"\x1b[31mred", text)
        self.assertNotIn("\x1b", text)

    def test_two_forms_at_once_are_refused(self):
        self.assert_refused("captured", self.write(PICTURE), "--dot", "--json", says="--dot")


if __name__ == "__main__":
    unittest.main()
