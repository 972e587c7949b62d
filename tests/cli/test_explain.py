"""What the program says about a schedule without running it."""
import json
import os
import pathlib
import unittest

from support import CONFIGS, ProgramTest, schedule

DOUBLES = pathlib.Path(os.environ["RONDO_DOUBLES"])

# Six strands; "pos" is read through a pointer, "a" is a value, "rows" a grid.
STRANDS = schedule(
    name="strands",
    params={"a": {"type": "i32", "step": 1}, "pos": {"type": "i32", "step": 1}, "both": {"type": "i32", "step": 0},
            "rows": {"type": "i32", "step": 3, "min": 1, "max": 10}, "idle": {"type": "f32", "step": 1},
            "size": {"type": "i32", "constant": 100}, "lanes": {"type": "i32", "constant": 0}},
    graph={"lanes": "lanes"},
    buffers={"part.{i}": {"for": {"i": 6}, "type": "i64", "shape": ["size"], "role": "temporary"},
             "sum": {"type": "i64", "shape": [64], "role": "state", "fill": 0}},
    kernels={"part": {"entry": "part", "code": "extern \"C\" __global__ void part(long long* to, int i, int a) { *to = i * 1000 + a; }"},
             "add": {"entry": "add", "code": "extern \"C\" __global__ void add(long long* sum, const long long* from, const int* pos, "
                                             "const int* both, int value) { *sum = *sum * 3 + *from + *pos + *both + value; }"}},
    ops=[{"repeat": "i", "count": 6, "ops": [
        {"kernel": "part", "grid": ["rows"], "block": [1], "args": [{"write": "part.{i}"}, "i + a", "a"]},
        {"kernel": "add", "grid": [1], "block": [1], "args": ["sum[i : 1]", "part.{i}", "pos", {"slot": "both"}, "both"]}]}])


class Explain(ProgramTest):
    def explain(self, *arguments, content=STRANDS, **options):
        return self.rondo_json("explain", self.write_schedule(content), "--device", "host", *arguments, **options)

    def test_each_step_param_has_a_way_and_a_reason(self):
        report = self.explain()
        params = {param["name"]: param for param in report["params"]}
        self.assertEqual(set(params), {"a", "pos", "both", "rows", "idle"})
        self.assertEqual({name: param["update"] for name, param in params.items()},
                         {"a": "node", "pos": "slot", "both": "mixed", "rows": "node", "idle": "unused"})
        self.assertEqual((params["a"]["nodes"], params["a"]["bytes"]), (6, 48))
        self.assertEqual((params["pos"]["nodes"], params["pos"]["bytes"], params["pos"]["readers"]), (1, 4, 6))
        self.assertEqual((params["both"]["nodes"], params["both"]["readers"]), (7, 6))
        self.assertTrue(params["rows"]["changes_shapes"])
        self.assertFalse(params["a"]["changes_shapes"])
        self.assertIn("pointer", params["pos"]["why"])
        self.assertIn("no op uses it", params["idle"]["why"])
        self.assertEqual(report["slots"], 2)

    def test_the_graph(self):
        graph = self.explain()["graph"]
        self.assertEqual((graph["nodes"], graph["full_edges"], graph["programmatic_edges"]), (13, 12, 0))
        self.assertEqual((graph["depth"], graph["widest_level"], graph["lane_edges"]), (2, 7, 0))

    def test_lanes_are_told(self):
        graph = self.explain("--const", "lanes=2")["graph"]
        self.assertEqual((graph["lanes"], graph["widest_level"]), (2, 2))
        self.assertGreater(graph["lane_edges"], 0)
        text = self.rondo("explain", self.write_schedule(STRANDS), "--device", "host", "--const", "lanes=2").stdout
        self.assertIn("2 lanes", text)

    def test_the_arena_and_who_waits_for_it(self):
        arena = self.explain()["arena"]
        self.assertEqual((arena["bytes"], arena["peak_bytes"]), (6 * 1024, 1024))
        self.assertEqual(arena["waits_for_memory_alone"], [])
        arena = self.explain("--const", "size=1000000")["arena"]
        self.assertEqual(arena["bytes"], arena["peak_bytes"])
        self.assertEqual(len(arena["temporaries"]), 6)
        self.assertEqual(len(arena["waits_for_memory_alone"]), 5)
        self.assertEqual(arena["waits_for_memory_alone"][0]["earlier_temporary"], "part.0")
        arena = self.explain("--separate-buffers")["arena"]
        self.assertEqual((arena["bytes"], arena["temporaries"]), (0, []))

    def test_costs_that_were_not_measured_are_not_given(self):
        report = self.explain()
        self.assertIsNone(report["graph"]["expected_launch_us"])
        self.assertIsNone(report["params"][0]["expected_ns"])
        self.assertIn("not measured on host", report["costs"])

    def test_costs_on_cuda_say_where_they_come_from(self):
        doubles = {"RONDO_CUDA_LIBRARY": str(DOUBLES / "libcuda.so.1"), "RONDO_NVRTC_LIBRARY": str(DOUBLES / "libnvrtc.so.13")}
        report = self.rondo_json("explain", self.write_schedule(STRANDS), "--device", "cuda", environment=doubles)
        params = {param["name"]: param["expected_ns"] for param in report["params"]}
        self.assertEqual((params["a"], params["pos"], params["idle"]), (6 * 187, 187, 0))
        self.assertIn("H200", report["costs"])
        self.assertGreater(report["graph"]["expected_launch_us"], 1)
        self.assertIsNotNone(report["kernels"][0]["registers"])

    def test_the_mode_and_why(self):
        report = self.explain("--mode", "eager")
        self.assertEqual((report["mode"], report["mode_reason"]), ("eager", "asked for"))
        self.assertEqual(self.explain()["mode"], "graph")

    def test_kernels_have_their_shapes(self):
        kernels = {kernel["name"]: kernel for kernel in self.explain()["kernels"]}
        self.assertEqual((kernels["part"]["nodes"], kernels["part"]["least_blocks"], kernels["part"]["most_blocks"]), (6, 3, 3))
        self.assertEqual(kernels["add"]["threads"], 1)

    def test_shapes_follow_what_is_set(self):
        kernels = {kernel["name"]: kernel for kernel in self.explain("--set", "rows=7", "--set", "idle=2.5")["kernels"]}
        self.assertEqual(kernels["part"]["most_blocks"], 7)
        for setting, says in (("rows=11", "its range is 1 to 10"), ("rows=many", "many"), ("row=1", "rows"), ("idle=no", "idle"), ("size=1", "no step param")):
            self.assert_refused("explain", self.write_schedule(STRANDS), "--device", "host", "--set", setting, says=says)

    def test_text_is_for_people(self):
        text = self.rondo("explain", self.write_schedule(STRANDS), "--device", "host").stdout
        for part in ("strands on host", "graph mode", "Step params", "13 nodes", "Kernels", "Arena", "part.5"):
            self.assertIn(part, text)

    def test_dot_has_every_node_and_edge(self):
        text = self.rondo("explain", self.write_schedule(STRANDS), "--device", "host", "--dot").stdout
        self.assertTrue(text.startswith("digraph \"strands\""))
        self.assertEqual(text.count("[label="), 13)
        self.assertEqual(text.count(" -> "), 12)

    def test_what_is_wrong_is_told_as_elsewhere(self):
        self.assert_refused("explain", self.write_schedule(schedule(ops=[{"kernel": "sapxy", "grid": [1], "block": [1], "args": []}])),
                            "--device", "host", says="sapxy")
        self.assert_refused("explain", self.write_schedule(), "--json", "--dot", says="--dot")
        self.assert_refused("explain", "/nonexistent.json", "--device", "host", says="/nonexistent.json")

    def test_configs(self):
        report = self.rondo_json("explain", CONFIGS / "softmax.json", "--device", "host")
        self.assertEqual(report["graph"]["nodes"], 3)


if __name__ == "__main__":
    unittest.main()
