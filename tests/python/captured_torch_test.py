#!/usr/bin/env python3
"""Graphs that PyTorch captured, adopted over rondo.h: input, output and weights are retargeted to other tensors, at random, and
each replay has to give bit for bit what a fresh capture over those tensors gives.

    captured_torch_test.py librondo.so [rounds]

Exit code 77, with the reason, where there is no PyTorch with a GPU and CUDAGraph(keep_graph=True)."""
import ctypes
import random
import sys


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import torch
except ImportError as error:
    skip(f"no PyTorch ({error})")
if not torch.cuda.is_available() or torch.version.cuda is None:
    skip("PyTorch sees no CUDA device")
try:
    torch.cuda.CUDAGraph(keep_graph=True)
except TypeError:
    skip(f"torch {torch.__version__} has no CUDAGraph(keep_graph=True)")
if not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph_exec"):
    skip(f"torch {torch.__version__} has no CUDAGraph.raw_cuda_graph_exec")
from torch.func import functional_call  # noqa: E402


class NodeInfo(ctypes.Structure):
    _fields_ = [("path", ctypes.c_char_p), ("kind", ctypes.c_char_p), ("name", ctypes.c_char_p),
                ("problem", ctypes.c_char_p), ("argument_count", ctypes.c_size_t)]


class NamedBuffer(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("first_begin", ctypes.c_uint64), ("first_bytes", ctypes.c_size_t),
                ("second_begin", ctypes.c_uint64), ("second_bytes", ctypes.c_size_t)]


class Rondo:
    """rondo.h, with exceptions in place of codes."""
    POINTER, SIZE, ADDRESS, TEXT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_char_p
    PARAMETERS = {
        "device_open": [TEXT, POINTER], "captured_graph_adopt": [POINTER, POINTER, POINTER, SIZE, POINTER],
        "captured_graph_node_count": [POINTER, POINTER], "captured_graph_node": [POINTER, SIZE, POINTER],
        "captured_graph_retarget": [POINTER, ADDRESS, SIZE, ADDRESS, POINTER, POINTER],
        "captured_graph_apply": [POINTER, POINTER], "captured_graph_to_json": [POINTER, POINTER],
        "site_map_diff": [POINTER, POINTER, POINTER, SIZE, POINTER], "site_map_to_json": [POINTER, POINTER],
        "site_map_parse": [TEXT, POINTER], "site_map_check": [POINTER, POINTER],
        "site_map_set_buffer": [POINTER, POINTER, TEXT, ADDRESS],
    }
    FREE = ["device_close", "captured_graph_free", "site_map_free", "string_free"]

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.rondo_last_error.restype = ctypes.c_char_p
        for name, parameters in self.PARAMETERS.items():
            getattr(self.library, "rondo_" + name).argtypes = parameters
        for name in self.FREE:
            getattr(self.library, "rondo_" + name).argtypes = [self.POINTER]
            getattr(self.library, "rondo_" + name).restype = None

    def call(self, name, *arguments):
        code = getattr(self.library, "rondo_" + name)(*arguments)
        if code != 0:
            raise RuntimeError(f"rondo_{name} gave {code}: {self.library.rondo_last_error().decode(errors='replace')}")

    def make(self, name, *arguments):
        """A call whose last parameter is where a handle is put."""
        handle = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle

    def free(self, name, handle):
        getattr(self.library, f"rondo_{name}")(handle)

    def text(self, name, handle):
        made = self.make(name, handle)
        text = ctypes.string_at(made)
        self.free("string_free", made)
        return text

    def nodes(self, captured):
        count = ctypes.c_size_t()
        self.call("captured_graph_node_count", captured, ctypes.byref(count))
        nodes = []
        for i in range(count.value):
            info = NodeInfo()
            self.call("captured_graph_node", captured, i, ctypes.byref(info))
            nodes.append({key: getattr(info, key) if key == "argument_count" else getattr(info, key).decode(errors="replace")
                          for key, _ in NodeInfo._fields_})
        return nodes


def size_of(tensor):
    return tensor.numel() * tensor.element_size()


class Program:
    """A module, and a way to put its result into a tensor of the caller's, as a graph over given tensors."""

    def __init__(self, module, put):
        self.module, self.put = module, put

    def run(self, tensors):
        weights = {name: tensor for name, tensor in tensors.items() if name not in ("input", "output")}
        self.put(functional_call(self.module, weights, (tensors["input"],)), tensors["output"])

    def capture(self, tensors):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(2):
                self.run(tensors)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.no_grad(), torch.cuda.graph(graph):
            self.run(tensors)
        graph.instantiate()
        return graph


def put_by_copy(result, output):
    output.copy_(result)  # a memcpy node


def put_by_kernel(result, output):
    torch.mul(result, 2.0, out=output)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(256)
        self.up = torch.nn.Linear(256, 1024)
        self.down = torch.nn.Linear(1024, 256)

    def forward(self, x):
        return torch.softmax(self.down(torch.nn.functional.gelu(self.up(self.norm(x)))), dim=-1)


def same_bits(a, b):
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def poison(tensor):
    tensor.view(torch.uint8).fill_(0xff)


def is_poisoned(tensor):
    return bool((tensor.view(torch.uint8) == 0xff).all())


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(map(str, what)))


class Test:
    INPUTS, WEIGHTS, OUTPUTS = 6, 4, 3

    def __init__(self, rondo, device, name, program, shape, dtype):
        self.rondo, self.device, self.name, self.program = rondo, device, name, program
        self.inputs = [torch.randn(shape, dtype=dtype, device="cuda") for _ in range(self.INPUTS)]
        self.outputs = [torch.empty(shape, dtype=dtype, device="cuda") for _ in range(self.OUTPUTS)]
        self.weights = [{key: (torch.randn_like(value) * 0.1).detach() for key, value in program.module.named_parameters()}
                        for _ in range(self.WEIGHTS)]
        self.expected = {}

    def tensors(self, input_index, weights_index, output_index):
        return {"input": self.inputs[input_index], "output": self.outputs[output_index], **self.weights[weights_index]}

    def fresh(self, input_index, weights_index):
        key = (input_index, weights_index)
        if key not in self.expected:
            tensors = self.tensors(*key, 0)
            graph = self.program.capture(tensors)
            poison(tensors["output"])
            graph.replay()
            torch.cuda.synchronize()
            self.expected[key] = tensors["output"].clone()
            check(bool(torch.isfinite(self.expected[key]).all()), "the fresh capture's result is not finite")
        return self.expected[key]

    def adopt(self, graph):
        return self.rondo.make("captured_graph_adopt", self.device, graph.raw_cuda_graph(), None, 0)

    def site_map(self, first, tensors):
        """By comparison with a second capture in which every tensor is another one; by way of JSON."""
        others = self.tensors(1, 1, 1)
        graph = self.program.capture(others)
        second = self.adopt(graph)
        buffers = (NamedBuffer * len(tensors))(*[
            NamedBuffer(name.encode(), tensor.data_ptr(), size_of(tensor), others[name].data_ptr(), size_of(others[name]))
            for name, tensor in tensors.items()])
        made = self.rondo.make("site_map_diff", first, second, buffers, len(tensors))
        self.rondo.call("site_map_check", made, second)
        read = self.rondo.make("site_map_parse", self.rondo.text("site_map_to_json", made))
        self.rondo.free("site_map_free", made)
        self.rondo.free("captured_graph_free", second)
        self.rondo.call("site_map_check", read, first)
        return read

    def run(self, rounds):
        now = self.tensors(0, 0, 0)
        graph = self.program.capture(now)
        captured = self.adopt(graph)
        nodes = self.rondo.nodes(captured)
        kinds = [node["kind"] for node in nodes]
        print(f"{self.name}: {len(nodes)} nodes, " + ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))))
        check("kernel" in kinds, "no kernel node was captured")
        for node in nodes:
            check(not node["problem"] or node["kind"] not in ("kernel", "memcpy", "memset"), node)
        site_map = self.site_map(captured, now)
        generator = random.Random(1)
        places = ctypes.c_size_t()
        for turn in range(rounds):
            choice = (generator.randrange(self.INPUTS), generator.randrange(self.WEIGHTS), generator.randrange(self.OUTPUTS))
            wanted = self.fresh(*choice[:2])
            then = self.tensors(*choice)
            for name in sorted(then, key=lambda _: generator.random()):
                if turn % 2 == 0:
                    self.rondo.call("captured_graph_retarget", captured, now[name].data_ptr(), size_of(now[name]),
                                    then[name].data_ptr(), site_map, ctypes.byref(places))
                    check(places.value > 0, f"nothing in the graph points to {name}")
                else:
                    self.rondo.call("site_map_set_buffer", site_map, captured, name.encode(), then[name].data_ptr())
            now = then
            for output in self.outputs:
                poison(output)
            torch.cuda.synchronize()
            self.rondo.call("captured_graph_apply", captured, graph.raw_cuda_graph_exec())
            graph.replay()
            torch.cuda.synchronize()
            if not same_bits(now["output"], wanted):
                difference = (now["output"].double() - wanted.double()).abs().max().item()
                raise AssertionError(f"round {turn}, {choice}: not what a fresh capture gives, largest difference {difference}")
            for output in self.outputs:
                check(output is now["output"] or is_poisoned(output), f"round {turn}: another output was written")
        self.rondo.free("site_map_free", site_map)
        self.rondo.free("captured_graph_free", captured)
        poison(now["output"])
        graph.replay()
        torch.cuda.synchronize()
        check(same_bits(now["output"], wanted), "after all is freed, the graph gives something else")
        print(f"{self.name}: {rounds} random retargets, bit for bit")


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__)
        return 2
    rounds = int(sys.argv[2]) if len(sys.argv) == 3 else 1000
    torch.manual_seed(1)
    rondo = Rondo(sys.argv[1])
    device = rondo.make("device_open", f"cuda:{torch.cuda.current_device()}".encode())
    failures = 0
    for dtype in (torch.float32, torch.bfloat16):
        encoder = torch.nn.TransformerEncoderLayer(256, 4, 512, dropout=0.0, batch_first=True, device="cuda", dtype=dtype).eval()
        mlp = Mlp().to(device="cuda", dtype=dtype).eval()
        for name, module, put, shape in [("TransformerEncoderLayer", encoder, put_by_copy, (8, 32, 256)),
                                         ("MLP", mlp, put_by_kernel, (64, 256))]:
            name = f"{name} {str(dtype).removeprefix('torch.')}"
            for parameter in module.parameters():
                parameter.requires_grad_(False)
            try:
                Test(rondo, device, name, Program(module, put), shape, dtype).run(rounds)
            except (AssertionError, RuntimeError) as error:
                failures += 1
                print(f"{name}: FAILED: {error}")
    rondo.free("device_close", device)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
