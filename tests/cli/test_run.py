"""Schedules that run: numbers, reports, the cache, and what happens when kernels or the surroundings are wrong."""
import json
import os
import pathlib
import random
import signal
import subprocess
import time
import unittest

from support import CONFIGS, PROGRAM, ProgramTest, read_npy, schedule, write_npy

KERNEL_WITH_AN_ERROR = "#define UNUSED\nextern \"C\" __global__ void saxpy(int n, float a, const float* x, float* y) {\n  y[0] = undeclared;\n}\n"


def relative_error(ours, reference):
    return (sum((a - b) ** 2 for a, b in zip(ours, reference)) / sum(b * b for b in reference)) ** 0.5


class Run(ProgramTest):
    def test_saxpy_numbers_from_and_to_npy(self):
        x = [random.uniform(-1, 1) for _ in range(1000)]
        y = [random.uniform(-1, 1) for _ in range(1000)]
        write_npy(self.folder / "x.npy", x)
        write_npy(self.folder / "y.npy", y)
        self.rondo("run", self.write_schedule(), "--device", "host", "--input", f"x={self.folder}/x.npy", "--input",
                   f"y={self.folder}/y.npy", "--sweep", "a=1..4", "--output", f"y={self.folder}/out.npy")
        dtype, shape, result = read_npy(self.folder / "out.npy")
        self.assertEqual((dtype, shape), ("<f4", (1000,)))
        self.assertLess(relative_error(result, [b + 10 * a for a, b in zip(x, y)]), 1e-5)

    def test_config_saxpy(self):
        report = self.rondo_json("run", CONFIGS / "saxpy.json", "--device", "host", "--const", "n=5000", "--steps", "3")
        self.assertEqual(report["steps"], 3)
        self.assertGreater(report["first_launch_ms"], 0)
        self.assertEqual(report["counters"]["graph_launches"], 3)
        self.assertEqual(report["counters"]["instantiations"], 1)
        (y,) = [buffer for buffer in report["buffers"] if buffer["name"] == "y"]
        self.assertEqual((y["shape"], y["nans"]), ([5000], 0))
        self.assertGreater(y["norm"], 0)

    def test_set_changes_the_result(self):
        path = self.write_schedule()
        norms = [self.rondo_json("run", path, "--device", "host", "--set", f"a={a}")["buffers"][0]["norm"] for a in (1, 3)]
        self.assertAlmostEqual(norms[1] / norms[0], 3, places=5)

    def test_const_changes_the_shape(self):
        report = self.rondo_json("run", self.write_schedule(), "--device", "host", "--const", "n=17")
        self.assertEqual(report["buffers"][0]["shape"], [17])

    def test_eager_mode_launches_kernels(self):
        report = self.rondo_json("run", self.write_schedule(), "--device", "host", "--mode", "eager", "--steps", "2")
        self.assertEqual(report["counters"]["graph_launches"], 0)
        self.assertEqual(report["counters"]["kernel_launches"], 2)

    def test_text_report_names_what_ran(self):
        text = self.rondo("run", self.write_schedule(), "--device", "host").stdout
        for part in ("small on host", "first launch", "state y f32 [1000]"):
            self.assertIn(part, text)

    def test_standard_error_is_quiet_in_a_pipe(self):
        self.assertEqual(self.rondo("run", self.write_schedule(), "--device", "host").stderr, "")

    def test_softmax_rows_sum_to_one(self):
        self.rondo("run", CONFIGS / "softmax.json", "--device", "host", "--output", f"y={self.folder}/y.npy")
        _, (rows, columns), values = read_npy(self.folder / "y.npy")
        for row in range(rows):
            self.assertAlmostEqual(sum(values[row * columns:(row + 1) * columns]), 1, places=5)

    def test_temporary_cannot_be_written_or_read(self):
        write_npy(self.folder / "once.npy", [0.0])
        self.assert_refused("run", CONFIGS / "softmax.json", "--device", "host", "--input", f"once={self.folder}/once.npy",
                            says='"once" is a temporary')
        self.assert_refused("run", CONFIGS / "softmax.json", "--device", "host", "--output", f"once={self.folder}/o.npy",
                            says=['"once" is a temporary', "--separate-buffers"])

    def test_temporary_can_be_read_with_separate_buffers(self):
        self.rondo("run", CONFIGS / "softmax.json", "--device", "host", "--separate-buffers", "--output",
                   f"once={self.folder}/once.npy")
        _, shape, _ = read_npy(self.folder / "once.npy")
        self.assertEqual(shape, (64, 1000))

    def test_closed_standard_output_is_no_failure(self):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as output:
            done = subprocess.run([PROGRAM, "run", self.write_schedule(), "--device", "host"], stdout=output,
                                  stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_full_standard_output_is_a_failure(self):
        with open("/dev/full", "w") as output:
            done = subprocess.run([PROGRAM, "run", self.write_schedule(), "--device", "host"], stdout=output,
                                  stderr=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual(done.returncode, 1)
        self.assertIn("error: cannot write to standard output", done.stderr)

    def test_interrupt_reports_the_steps_that_were_done(self):
        self.rondo("run", self.write_schedule(), "--device", "host")  # compiled from here on
        process = subprocess.Popen([PROGRAM, "run", self.write_schedule(), "--device", "host", "--steps", "1000000000", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        # Until the steps run, SIGINT ends the process as it ends any other; its handler shows in /proc.
        handled = 1 << (signal.SIGINT - 1)
        status = pathlib.Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            (caught,) = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("SigCgt")]
            if int(caught, 16) & handled:
                break
            time.sleep(0.001)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130)
        self.assertTrue(json.loads(output)["interrupted"])


class Compilation(ProgramTest):
    def broken_kernel(self):
        kernels = {"saxpy": {"source": "broken.cu", "entry": "saxpy"}}
        (self.folder / "broken.cu").write_text(KERNEL_WITH_AN_ERROR)
        return self.write_schedule(schedule(kernels=kernels))

    def test_log_points_into_the_users_file(self):
        self.assert_refused("run", self.broken_kernel(), "--device", "host", says=["broken.cu", ":3:", "undeclared", '"saxpy"'])

    def test_a_kernel_that_touches_foreign_memory_ends_in_one_line(self):
        code = "extern \"C\" __global__ void wild(int n, float a, const float* x, float* y) { *(volatile int*)8 = n; }"
        ops = [{"kernel": "wild", "grid": [4], "block": [1], "args": ["n", "a", "x", "y"]}]
        path = self.write_schedule(schedule(kernels={"wild": {"code": code, "entry": "wild"}}, ops=ops))
        self.assert_refused("run", path, "--device", "host", expect=1, says=["memory fault", "in a kernel on the host device", "indices"])

    def test_time_a_launch_is_never_negative(self):
        # 256 is how many launches are queued before the program waits.
        path = self.write_schedule(schedule())
        for steps in (255, 256, 257, 512):
            report = self.rondo_json("run", path, "--device", "host", "--steps", steps)
            self.assertGreaterEqual(report["later_step_us"], 0, steps)

    def test_wrong_argument_count_is_refused(self):
        ops = [{"kernel": "saxpy", "grid": [4], "block": [1], "args": ["n", "a", "x"]}]
        self.assert_refused("run", self.write_schedule(schedule(ops=ops)), "--device", "host", says=["saxpy", "3", "4"])

    def test_no_cache_compiles_each_time(self):
        path = self.write_schedule()
        for _ in range(2):
            report = self.rondo_json("run", path, "--device", "host", "--no-cache")
            self.assertEqual(report["build"]["from_cache"], 0)

    def test_cache_is_used(self):
        path, cache = self.write_schedule(), self.folder / "cache"
        first = self.rondo_json("run", path, "--device", "host", "--cache", cache)
        second = self.rondo_json("run", path, "--device", "host", "--cache", cache)
        self.assertEqual(first["build"]["from_cache"], 0)
        self.assertEqual(second["build"]["compiled"], 0)

    def test_cache_that_cannot_be_written_is_a_note(self):
        # A file in the folder's place: unwritable for root as well.
        (self.folder / "cache").write_text("")
        done = self.rondo("run", self.write_schedule(), "--device", "host", "--cache", self.folder / "cache")
        self.assertRegex(done.stderr, "^note: .*cache")

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_read_only_cache_is_a_note(self):
        cache = self.folder / "cache"
        cache.mkdir(mode=0o500)
        done = self.rondo("run", self.write_schedule(), "--device", "host", "--cache", cache)
        self.assertRegex(done.stderr, "^note: .*cache")

    def test_corrupted_cache_entries_are_compiled_anew(self):
        path, cache = self.write_schedule(), self.folder / "cache"
        reference = self.rondo_json("run", path, "--device", "host", "--cache", cache)["buffers"]
        entries = [entry for entry in cache.rglob("*") if entry.is_file()]
        self.assertTrue(entries)
        for damage in (lambda data: b"", lambda data: data[:len(data) // 2],
                       lambda data: data[:-20] + bytes([data[-20] ^ 0xff]) + data[-19:]):
            for entry in entries:
                entry.write_bytes(damage(entry.read_bytes()))
            report = self.rondo_json("run", path, "--device", "host", "--cache", cache)
            self.assertEqual(report["build"]["from_cache"], 0)
            self.assertEqual(report["buffers"], reference)


class Check(ProgramTest):
    def test_good_schedule(self):
        self.assertIn("good", self.rondo("check", self.write_schedule(), "--device", "host").stdout)
        self.assertTrue(self.rondo_json("check", self.write_schedule(), "--parse-only")["good"])

    def test_every_error_is_listed(self):
        broken = schedule()
        broken["parms"] = {}
        broken["buffers"]["x"]["type"] = "f31"
        done = self.rondo("check", self.write_schedule(broken), "--parse-only", expect=2)
        self.assertIn('Did you mean "params"?', done.stdout)
        self.assertIn("/buffers/x/type", done.stdout)

    def test_constants_that_follow_from_others_cannot_contradict_them(self):
        sizes = {"n_layers": 1, "d": 64, "d_ff": 64, "vocab": 32, "n_heads": 2, "epsilon": "1e-5", "context": 64}
        shape = [part for name, value in sizes.items() for part in ("--const", f"{name}={value}")]
        decode = ["check", CONFIGS / "llama" / "decode.json", "--device", "host", "--weights", "random:f16", *shape]
        self.assertIn("good", self.rondo(*decode).stdout)
        for wrong in ["q_dim=7", "kv_dim=1", "heads_per_kv=0", "heads_per_kv=-1"]:
            done = self.rondo(*decode, "--const", wrong, expect=2)
            self.assertIn("follow from n_heads, n_kv and head_dim", done.stdout, wrong)

    def test_errors_have_places_in_json(self):
        broken = schedule()
        broken["buffers"]["x"]["type"] = "f31"
        report = self.rondo_json("check", self.write_schedule(broken), "--parse-only", expect=2)
        (diagnostic,) = report["diagnostics"]
        self.assertEqual(diagnostic["pointer"], "/buffers/x/type")
        self.assertGreater(diagnostic["line"], 1)
        self.assertFalse(report["good"])

    def test_signatures_are_checked_on_a_device(self):
        ops = [{"kernel": "saxpy", "grid": [4], "block": [1], "args": ["n", "x", "x", "y"]}]
        done = self.rondo("check", self.write_schedule(schedule(ops=ops)), "--device", "host", expect=2)
        self.assertIn("/ops/0/args/1", done.stdout)


class Verify(ProgramTest):
    def test_graph_and_eager_agree(self):
        for config, sweep in (("saxpy.json", "a=1..5"), ("softmax.json", "rows=60..64")):
            with self.subTest(config):
                report = self.rondo_json("verify", CONFIGS / config, "--device", "host", "--against", "eager", "--sweep", sweep)
                self.assertTrue(report["equal"])
                self.assertEqual(report["steps"], 5)

    def test_a_difference_is_found_and_named(self):
        # What a kernel makes of an address is another thing in each session.
        kernels = {"saxpy": {"code": "extern \"C\" __global__ void saxpy(int n, float a, const float* x, float* y) {\n"
                                     "  y[7] = (float)(((unsigned long long)y >> 6) & 0x3fffff);\n}\n", "entry": "saxpy"}}
        ops = [{"kernel": "saxpy", "grid": [1], "block": [1], "args": ["n", "a", "x", "y"]}]
        path = self.write_schedule(schedule(kernels=kernels, ops=ops))
        report = self.rondo_json("verify", path, "--device", "host", "--against", "eager", expect=1)
        (difference,) = report["differences"]
        self.assertEqual((difference["step"], difference["buffer"], difference["index"]), (0, "y", 7))
        self.assertNotEqual(difference["ours"], difference["theirs"])
        self.assertIn("DIFFERENT", self.rondo("verify", path, "--device", "host", "--against", "eager", expect=1).stdout)

    def test_elements_that_no_kernel_writes_are_noted(self):
        buffers = schedule()["buffers"]
        buffers["y"] = {"type": "f32", "shape": ["n + 3"], "role": "output"}
        kernels = {"saxpy": {"code": "extern \"C\" __global__ void saxpy(int n, float a, const float* x, float* y) {\n"
                                     "  for (int i = 0; i < n; ++i) y[i] = a * x[i];\n}\n", "entry": "saxpy"}}
        ops = [{"kernel": "saxpy", "grid": [1], "block": [1], "args": ["n", "a", "x", {"write": "y"}]}]
        path = self.write_schedule(schedule(buffers=buffers, kernels=kernels, ops=ops))
        report = self.rondo_json("verify", path, "--device", "host", "--against", "eager")
        (y,) = [buffer for buffer in report["buffers"] if buffer["name"] == "y"]
        self.assertEqual(y["never_written"], 3)


if __name__ == "__main__":
    unittest.main()
