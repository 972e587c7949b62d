"""The program on the doubles of the vendors' libraries: what it does with drivers that misbehave."""
import os
import unittest

from support import CONFIGS, ProgramTest, schedule

FOLDER = os.environ["RONDO_DOUBLES"]
LIBRARIES = {
    "RONDO_CUDA_LIBRARY": FOLDER + "/libcuda.so.1",
    "RONDO_NVRTC_LIBRARY": FOLDER + "/libnvrtc.so.13",
    "RONDO_HIP_LIBRARY": FOLDER + "/libamdhip64.so.6",
    "RONDO_HIPRTC_LIBRARY": FOLDER + "/libhiprtc.so.6",
}
# What graphs do wrong, and how the program puts it.
FAULTS = {
    "rocm_5.4": "hipErrorInvalidDeviceFunction (98)",
    "ignore_updates": "an update of a node reports success, and the next launch runs the old arguments",
    "share_arguments": "two nodes of one kernel do not keep their own arguments",
}


class Doubles(ProgramTest):
    def devices(self, **environment):
        listed = self.rondo_json("devices", environment={**LIBRARIES, **environment})["devices"]
        return {device["spec"]: device for device in listed}

    def test_devices_are_listed_with_their_graphs(self):
        devices = self.devices()
        for spec in ("cuda:0", "hip:0"):
            self.assertTrue(devices[spec]["available"], devices[spec])
            self.assertEqual(devices[spec]["graphs"], {"usable": True, "problem": ""})
        for mode, problem in FAULTS.items():
            with self.subTest(mode):
                device = self.devices(RONDO_DOUBLE_HIP=mode)["hip:0"]
                self.assertTrue(device["available"])
                self.assertFalse(device["graphs"]["usable"])
                self.assertIn(problem, device["graphs"]["problem"])
                text = self.rondo("devices", environment={**LIBRARIES, "RONDO_DOUBLE_HIP": mode}).stdout
                self.assertIn("graphs: off, every step is launched op by op: ", text)
                self.assertIn(problem, text)

    def test_schedules_give_what_they_give_on_the_host(self):
        for device in ("cuda", "hip"):
            for name in ("saxpy.json", "softmax.json"):
                with self.subTest(device=device, schedule=name):
                    done = self.rondo("verify", CONFIGS / name, "--device", device, "--against", "host", "--steps", 3,
                                      environment=LIBRARIES)
                    self.assertIn("equal", done.stdout)

    def test_where_graphs_misbehave_plain_launches_take_over_with_one_line(self):
        for mode, problem in FAULTS.items():
            with self.subTest(mode):
                environment = {**LIBRARIES, "RONDO_DOUBLE_HIP": mode}
                done = self.rondo("verify", CONFIGS / "saxpy.json", "--device", "hip", "--against", "host", "--sweep", "a=1..5",
                                  environment=environment)
                self.assertIn("equal", done.stdout)
                self.assertIn("eager against host", done.stdout)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn("graphs are off on hip:0", done.stderr)
                self.assertIn(problem, done.stderr)
                report = self.rondo_json("run", CONFIGS / "saxpy.json", "--device", "hip", "--steps", 3, environment=environment)
                self.assertEqual(report["mode"], "eager")
                self.assertEqual(report["counters"]["graph_launches"], 0)
                self.assertEqual(report["counters"]["kernel_launches"], 3)

    def test_verify_against_eager_has_nothing_to_compare_without_graphs(self):
        done = self.rondo("verify", CONFIGS / "saxpy.json", "--device", "hip", "--against", "eager", expect=3,
                          environment={**LIBRARIES, "RONDO_DOUBLE_HIP": "ignore_updates"})
        self.assertIn("error: graphs are off on hip:0: there is no graph to compare", done.stderr)

    def test_the_graph_is_renewed_after_as_many_updates_as_asked(self):
        for device in ("cuda", "hip"):
            with self.subTest(device):
                report = self.rondo_json("run", self.write_schedule(), "--device", device, "--sweep", "a=1..3000", "--renew-after", 50,
                                         environment=LIBRARIES)
                self.assertGreaterEqual(report["counters"]["renewals"], 5)
                self.assertEqual(report["counters"]["failed_renewals"], 0)
                self.assertEqual(report["counters"]["instantiations"], 1 + report["counters"]["renewals"])
        report = self.rondo_json("run", self.write_schedule(), "--device", "hip", "--sweep", "a=1..3000", environment=LIBRARIES)
        self.assertEqual(report["counters"]["renewals"], 0)

    def test_an_unknown_architecture_is_one_clear_line(self):
        done = self.assert_refused("run", self.write_schedule(), "--device", "hip", expect=3, says="gfx9999",
                                   environment={**LIBRARIES, "RONDO_DOUBLE_HIP_ARCHITECTURE": "gfx9999"})
        self.assertIn("gfx90a", done.stderr)  # what is known

    def test_failures_name_the_call_and_its_result(self):
        for device, fault, says in (("cuda", "cuGraphLaunch:1:719", "cuGraphLaunch"), ("cuda", "cuMemAlloc_v2:1:2", "OUT_OF_MEMORY"),
                                    ("hip", "hipMalloc:1:2", "hipErrorOutOfMemory"), ("hip", "hipModuleLoadData:2:209", "hipErrorNoBinaryForGpu")):
            with self.subTest(fault):
                self.assert_refused("run", self.write_schedule(), "--device", device, expect=1, says=says,
                                    environment={**LIBRARIES, "RONDO_DOUBLE_FAIL": fault})

    def test_a_kernel_the_vendor_cannot_compile_names_its_place(self):
        bad = schedule(kernels={"saxpy": {"code": "__global__ void saxpy(int n, float a, const float* x, float* y) {\n  y[0] = nothing;\n}\n",
                                          "entry": "saxpy"}})
        for device in ("cuda", "hip"):
            with self.subTest(device):
                done = self.assert_refused("run", self.write_schedule(bad), "--device", device, expect=2, says="nothing",
                                           environment=LIBRARIES)
                self.assertIn(":2:", done.stderr)


if __name__ == "__main__":
    unittest.main()
