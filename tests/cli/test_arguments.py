"""Wrong arguments: exit code 2 (3 where something is missing) and a message that says what was expected."""
import unittest

from support import ProgramTest, schedule, write_npy


class Arguments(ProgramTest):
    def test_version(self):
        self.assertRegex(self.rondo("--version").stdout, r"^rondo \d+\.\d+\.\d+\n$")

    def test_help_without_arguments(self):
        self.assertIn("generate", self.rondo().stdout)

    def test_help_of_a_command(self):
        self.assertIn("--sweep", self.rondo("run", "--help").stdout)

    def test_unknown_command_is_refused(self):
        self.assert_refused("rum", says=["rum", 'Did you mean "run"?'])

    def test_unknown_option_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--stepps", "3", says=["--stepps", 'Did you mean "--steps"?', "rondo run --help"])

    def test_missing_schedule_argument_is_refused(self):
        self.assert_refused("run", says="schedule")

    def test_missing_file_is_refused(self):
        self.assert_refused("run", self.folder / "none.json", says="none.json")

    def test_directory_as_schedule_is_refused(self):
        self.assert_refused("run", self.folder, says=str(self.folder))

    def test_text_that_is_no_json_is_refused(self):
        self.assert_refused("run", self.write_schedule("{\n  oops"), says="schedule.json:2:")

    def test_unknown_mode_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--mode", "grph", says=["--mode", 'Did you mean "graph"?'])

    def test_steps_that_are_no_number_are_refused(self):
        self.assert_refused("run", self.write_schedule(), "--steps", "many", says="--steps")

    def test_zero_steps_are_refused(self):
        self.assert_refused("run", self.write_schedule(), "--steps", "0", says="--steps")

    def test_const_without_value_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--const", "n", says=["--const", "NAME=VALUE", '"n"'])

    def test_unknown_const_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--const", "nn=4", says=['"nn"', "Its constants: n"])

    def test_step_param_as_const_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--const", "a=4", says='"a"')

    def test_set_without_value_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--set", "=3", says=["--set", "NAME=VALUE"])

    def test_unknown_param_is_refused(self):
        params = {**schedule()["params"], "position": {"type": "i32", "step": 0}}
        path = self.write_schedule(schedule(params=params))
        self.assert_refused("run", path, "--device", "host", "--set", "positon=3", says='Did you mean "position"?')

    def test_set_of_a_constant_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--set", "n=3", says="constant")

    def test_set_of_text_to_a_number_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--set", "a=two", says=['"two"', "f32"])

    def test_value_out_of_range_is_refused(self):
        params = {**schedule()["params"], "pos": {"type": "i32", "step": 0, "min": 0, "max": 9}}
        path = self.write_schedule(schedule(params=params))
        self.assert_refused("run", path, "--device", "host", "--set", "pos=10", says=['"pos"', "0 to 9"])
        self.assert_refused("run", path, "--device", "host", "--sweep", "pos=8..12", says=["step 2", '"pos" would be 10', "0 to 9"])
        self.assert_refused("run", path, "--device", "host", "--sweep", "n=8..12", says=['"n" would be 8', "constant"])

    def test_malformed_sweeps_are_refused(self):
        path = self.write_schedule()
        for sweep, says in {"a": "FIRST..[LAST]", "a=1": '".."', "a=x..2": "first value", "a=1..y": "last value",
                            "a=1..5:0": "step", "a=5..1": "empty", "a=1..5:-1": "empty",
                            "a=99999999999999999999..": "first value",
                            "a=-9223372036854775808..9223372036854775807": "too long"}.items():
            with self.subTest(sweep):
                self.assert_refused("run", path, "--sweep", sweep, says=["--sweep", says])

    def test_sweep_shorter_than_steps_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--sweep", "a=1..3", "--steps", "5", says=["--steps 5", "3"])

    def test_sweeps_of_two_lengths_are_refused(self):
        self.assert_refused("run", self.write_schedule(), "--sweep", "a=1..3", "--sweep", "b=1..4", says=["3", "4", "--steps"])

    def test_unknown_device_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--device", "quda", says='"quda"')

    def test_missing_input_file_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--input", "x=none.npy", says="none.npy")

    def test_input_that_is_no_npy_is_refused(self):
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--input", "x=values.txt", says=".npy")

    def test_input_of_another_type_is_refused(self):
        file = self.folder / "x.npy"
        write_npy(file, [0.0] * 1000, dtype="<f8")
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--input", f"x={file}",
                            says=["f32 [1000]", "f64 [1000]"])

    def test_input_of_another_shape_is_refused(self):
        file = self.folder / "x.npy"
        write_npy(file, [0.0] * 1000, shape=(10, 100))
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--input", f"x={file}",
                            says=["f32 [1000]", "f32 [10, 100]"])

    def test_truncated_npy_is_refused(self):
        file = self.folder / "x.npy"
        write_npy(file, [0.0] * 1000)
        file.write_bytes(file.read_bytes()[:-4])
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--input", f"x={file}", says="x.npy")

    def test_truncated_gguf_is_refused(self):
        file = self.folder / "model.gguf"
        file.write_bytes(b"GGUF\x03\x00\x00\x00\xff\xff\xff")
        self.assert_refused("run", self.write_schedule(), "--weights", file, says="model.gguf")
        self.assert_refused("generate", "--weights", file, "Hello", says="model.gguf")

    def test_unknown_buffer_is_refused(self):
        path = self.write_schedule()
        self.assert_refused("run", path, "--device", "host", "--output", "z=z.npy", says='"z"')
        self.assert_refused("run", path, "--device", "host", "--input", "z=z.npy", says='"z"')

    def test_output_that_cannot_be_written_fails_while_running(self):
        self.assert_refused("run", self.write_schedule(), "--device", "host", "--output", f"y={self.folder}/none/y.npy",
                            says="y.npy", expect=1)

    def test_cache_and_no_cache_exclude_each_other(self):
        self.assert_refused("run", self.write_schedule(), "--cache", self.folder, "--no-cache", says="--no-cache")

    def test_bad_against_is_refused(self):
        self.assert_refused("verify", self.write_schedule(), says="--against")
        self.assert_refused("verify", self.write_schedule(), "--device", "host", "--against", "nothing", says='"nothing"')

    def test_verify_against_itself_is_refused(self):
        self.assert_refused("verify", self.write_schedule(), "--device", "host", "--against", "host", says="--against host")

    def test_generate_without_weights_is_refused(self):
        self.assert_refused("generate", "Hello", says="--weights")


class Missing(ProgramTest):
    def test_missing_gpu(self):
        # A library of that name cannot be there, so no machine has this driver.
        for device, variable in (("cuda", "RONDO_CUDA_LIBRARY"), ("hip", "RONDO_HIP_LIBRARY")):
            with self.subTest(device):
                done = self.assert_refused("run", self.write_schedule(), "--device", device, says=variable, expect=3,
                                           environment={variable: "/nonexistent/driver.so"})
                self.assertIn("/nonexistent/driver.so", done.stderr)

    def test_missing_compiler(self):
        path = self.write_schedule()
        for environment in ({"RONDO_HOST_CXX": "/nonexistent/c++"}, {"PATH": "/nonexistent", "RONDO_HOST_CXX": ""}):
            with self.subTest(environment):
                self.assert_refused("run", path, "--device", "host", "--cache", self.folder / "cache", says="RONDO_HOST_CXX",
                                    expect=3, environment=environment)

    def test_devices_says_why_one_is_missing(self):
        environment = {"RONDO_CUDA_LIBRARY": "/nonexistent/libcuda.so"}
        text = self.rondo("devices", environment=environment).stdout
        self.assertIn("host", text)
        self.assertIn("/nonexistent/libcuda.so", text)
        devices = {device["spec"]: device for device in self.rondo_json("devices", environment=environment)["devices"]}
        self.assertTrue(devices["host"]["available"])
        self.assertFalse(devices["cuda"]["available"])
        self.assertIn("/nonexistent/libcuda.so", devices["cuda"]["problem"])


if __name__ == "__main__":
    unittest.main()
