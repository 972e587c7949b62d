"""What the tests of the program share: running it, schedules and .npy files in a folder of the test's own."""
import array
import ast
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ["RONDO_PROGRAM"]
CONFIGS = ROOT / "configs"

# y[i] += a * x[i], in a schedule that tests can change.
SAXPY = {
    "rondo": 1, "name": "small",
    "params": {"n": {"type": "i32", "constant": 1000}, "a": {"type": "f32", "step": 2.0}},
    "buffers": {"x": {"type": "f32", "shape": ["n"], "role": "input", "fill": {"random": 1}},
                "y": {"type": "f32", "shape": ["n"], "role": "state", "fill": 0}},
    "kernels": {"saxpy": {"code": "extern \"C\" __global__ void saxpy(int n, float a, const float* x, float* y) {\n"
                                  "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)\n"
                                  "    y[i] += a * x[i];\n"
                                  "}\n", "entry": "saxpy"}},
    "ops": [{"kernel": "saxpy", "grid": [4], "block": [1], "args": ["n", "a", "x", "y"]}],
}


def schedule(**changes):
    """A copy of SAXPY in which top-level keys are replaced."""
    return {**json.loads(json.dumps(SAXPY)), **changes}


def write_npy(path, values, shape=None, dtype="<f4"):
    code = {"<f4": "f", "<f8": "d", "<i4": "i"}[dtype]
    shape = tuple(shape or (len(values),))
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header +
                                   array.array(code, values).tobytes())


def write_safetensors(path, tensors):
    """tensors: {name: (shape, values)}, as F32."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        content = array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_npy(path):
    """(dtype, shape, values)."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    (length,) = struct.unpack("<H", data[8:10])
    header = ast.literal_eval(data[10:10 + length].decode())
    assert not header["fortran_order"]
    values = array.array({"<f4": "f", "<i4": "i"}[header["descr"]])
    values.frombytes(data[10 + length:])
    return header["descr"], header["shape"], list(values)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write_schedule(self, content=None, name="schedule.json"):
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content or SAXPY, indent=2))
        return str(path)

    def rondo(self, *arguments, expect=0, environment=None, **options):
        """Runs the program and checks its exit code; never by the name of a signal."""
        env = {**os.environ, **(environment or {})}
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, env=env,
                              stdin=subprocess.DEVNULL, **options)
        self.assertEqual(done.returncode, expect, f"rondo {arguments}:\n{done.stdout}\n{done.stderr}")
        return done

    def rondo_json(self, *arguments, **options):
        return json.loads(self.rondo(*arguments, "--json", **options).stdout)

    def assert_refused(self, *arguments, says, expect=2, **options):
        """Exit code and message: one that begins with "error: " and has each of the texts `says`."""
        done = self.rondo(*arguments, expect=expect, **options)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, "^error: ")
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, done.stderr)
        return done
