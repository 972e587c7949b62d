"""rondo generate on the demo's model; without the model these tests are skipped."""
import json
import os
import subprocess
import unittest

from support import CONFIGS, PROGRAM, ProgramTest, write_safetensors

MODEL = os.environ.get("RONDO_TEST_MODEL", "")


@unittest.skipUnless(MODEL, "RONDO_TEST_MODEL is not set")
class Generate(ProgramTest):
    def generate(self, *arguments, **options):
        return self.rondo("generate", "--device", "host", "--weights", MODEL, *arguments, **options)

    def generate_json(self, *arguments, **options):
        return self.rondo_json("generate", "--device", "host", "--weights", MODEL, *arguments, **options)

    def test_text_goes_on_from_the_prompt(self):
        done = self.generate("The capital of France is", "--tokens", "8")
        self.assertTrue(done.stdout.startswith("The capital of France is"))
        self.assertIn("Paris", done.stdout)
        self.assertRegex(done.stderr, r"generated 8 tokens, [\d.]+ tokens/s")

    def test_each_token_is_one_launch_of_one_graph(self):
        report = self.generate_json("Once upon a time", "--tokens", "12")
        launches = len(report["prompt_tokens"]) + len(report["tokens"]) - 1
        self.assertEqual(len(report["tokens"]), 12)
        self.assertEqual(report["counters"]["graph_launches"], launches)
        self.assertEqual(report["counters"]["instantiations"], 1)
        self.assertEqual(report["counters"]["captures"], 0)

    def test_graph_and_eager_say_the_same(self):
        graph, eager = (self.generate_json("Once upon a time", "--tokens", "10", "--mode", mode) for mode in ("graph", "eager"))
        self.assertEqual(graph["tokens"], eager["tokens"])

    def test_chat_answers_and_stops(self):
        report = self.generate_json("What is the capital of France?", "--chat", "--tokens", "60")
        self.assertEqual(report["stopped"], "end of text")
        self.assertIn("Paris", report["text"])

    def test_special_characters_arrive_whole(self):
        text = self.generate("Ünïcödé → 🎼, naïve café:", "--tokens", "16").stdout
        self.assertNotIn("\ufffd", text)

    def test_context_ends_the_text(self):
        report = self.generate_json("Once upon a time", "--const", "context=8", "--tokens", "100")
        self.assertEqual(report["stopped"], "context full")
        self.assertEqual(len(report["prompt_tokens"]) + len(report["tokens"]), 9)

    def test_prompt_longer_than_the_context_is_refused(self):
        self.assert_refused("generate", "--device", "host", "--weights", MODEL, "--const", "context=3", "Once upon a time there",
                            says=["5 tokens", "room for 3"])

    def test_empty_prompt_is_refused(self):
        self.assert_refused("generate", "--weights", MODEL, "", says="the prompt is empty")

    def test_schedule_that_cannot_generate_is_refused(self):
        self.assert_refused("generate", "--device", "host", "--weights", MODEL, "--schedule", CONFIGS / "saxpy.json", "Hi", says='"pos"')

    def test_configs_folder_can_be_given(self):
        self.assert_refused("generate", "--device", "host", "--weights", MODEL, "Hi", says="/nonexistent/llama/decode.json",
                            environment={"RONDO_CONFIGS": "/nonexistent"})

    def test_reader_that_leaves_ends_the_text(self):
        process = subprocess.Popen([PROGRAM, "generate", "--device", "host", "--weights", MODEL, "Once upon a time", "--tokens",
                                    "2000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.read(20)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=300), 0)
        self.assertIn("stopped: output closed", process.stderr.read())
        process.stderr.close()


SIZES = {"n_layers": 1, "d": 32, "d_ff": 48, "vocab": 50, "n_heads": 2, "n_kv": 1, "epsilon": 1e-5, "context": 16}


class GenerateTokens(ProgramTest):
    """Weights without a vocabulary: the prompt is tokens' numbers."""

    def random(self, prompt, *arguments, weights="random:f32"):
        constants = [argument for name, value in SIZES.items() for argument in ("--const", f"{name}={value}")]
        return ["generate", prompt, "--device", "host", "--weights", weights, *constants, *arguments]

    def write_model(self, **config):
        """A model of SIZES as safetensors, with values that nobody chose."""
        state = [12345]

        def values(count):
            for _ in range(count):
                state[0] = (state[0] * 1103515245 + 12345) % 2**31
                yield state[0] / 2**30 - 1

        d, d_ff, vocab = SIZES["d"], SIZES["d_ff"], SIZES["vocab"]
        layer = "model.layers.0."
        shapes = {"model.embed_tokens.weight": [vocab, d], "model.norm.weight": [d], layer + "input_layernorm.weight": [d],
                  layer + "self_attn.q_proj.weight": [d, d], layer + "self_attn.k_proj.weight": [d // 2, d],
                  layer + "self_attn.v_proj.weight": [d // 2, d], layer + "self_attn.o_proj.weight": [d, d],
                  layer + "post_attention_layernorm.weight": [d], layer + "mlp.gate_proj.weight": [d_ff, d],
                  layer + "mlp.up_proj.weight": [d_ff, d], layer + "mlp.down_proj.weight": [d, d_ff]}
        write_safetensors(self.folder / "model.safetensors",
                          {name: (shape, values(shape[0] * (shape[1] if len(shape) > 1 else 1))) for name, shape in shapes.items()})
        config = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": d, "intermediate_size": d_ff, "num_attention_heads": 2,
                  "num_key_value_heads": 1, "rms_norm_eps": 1e-5, "max_position_embeddings": 16, "rope_scaling": None, **config}
        (self.folder / "config.json").write_text(json.dumps(config))
        return self.folder

    def test_random_weights_go_on_from_numbers(self):
        report = self.rondo_json(*self.random("1 2,3\n4", "--tokens", "5"))
        self.assertEqual(report["prompt_tokens"], [1, 2, 3, 4])
        self.assertEqual(len(report["tokens"]), 5)
        self.assertEqual(report["text"], "".join(f" {token}" for token in report["tokens"]))
        self.assertEqual(report["tokens"], self.rondo_json(*self.random("1 2 3 4", "--tokens", "5", weights="random:f32:0"))["tokens"])

    def test_seeds_differ(self):
        tokens = {tuple(self.rondo_json(*self.random("7", "--tokens", "12", weights=f"random:f32:{seed}"))["tokens"]) for seed in range(4)}
        self.assertGreater(len(tokens), 1)

    def test_constants_that_are_missing_are_listed(self):
        self.assert_refused("generate", "1", "--device", "host", "--weights", "random:q4_0", "--const", "d=64",
                            says=["n_layers, d_ff, vocab, n_heads, epsilon", "--const n_layers=… --const d_ff=…"])

    def test_spellings_of_random_weights(self):
        for weights in ("random", "random:", "random:i8", "random:f16:x", "random:f16:-1"):
            self.assert_refused(*self.random("1", weights=weights), says=[weights, "random:TYPE:SEED"])

    def test_text_is_refused(self):
        for prompt in ("Once", "1 two", "-1", "1.5", "99999999999", "1;2"):
            self.assert_refused(*self.random(prompt), says="without a vocabulary")
        self.assert_refused(*self.random(" , "), says="no token")
        self.assert_refused(*self.random("49 50"), says="the token 50, and the model's are 0 to 49")
        self.assert_refused(*self.random("1", "--chat"), says="--chat")

    def test_safetensors_with_a_config(self):
        model = self.write_model()
        report = self.rondo_json("generate", "3 1 4", "--device", "host", "--weights", model, "--tokens", "6")
        self.assertEqual(len(report["tokens"]), 6)
        by_file = self.rondo_json("generate", "3 1 4", "--device", "host", "--weights", model / "model.safetensors", "--tokens", "6")
        self.assertEqual(by_file["tokens"], report["tokens"])
        self.write_model(eos_token_id=report["tokens"][0])
        ended = self.rondo_json("generate", "3 1 4", "--device", "host", "--weights", model, "--tokens", "6")
        self.assertEqual((ended["tokens"], ended["stopped"]), ([], "end of text"))

    def test_safetensors_of_another_architecture_are_refused(self):
        self.assert_refused("generate", "3", "--device", "host", "--weights", self.write_model(model_type="gemma"), says="for the Llama architecture")

    def test_another_activation_is_refused(self):
        self.assert_refused("generate", "3", "--device", "host", "--weights", self.write_model(hidden_act="gelu"), says="silu")
        self.rondo_json("generate", "3", "--device", "host", "--weights", self.write_model(hidden_act="silu"), "--tokens", "1")

    def test_safetensors_without_a_config_are_refused(self):
        model = self.write_model()
        (model / "config.json").unlink()
        self.assert_refused("generate", "3", "--device", "host", "--weights", model, says='no metadata "llama.block_count", nor "num_hidden_layers"')


if __name__ == "__main__":
    unittest.main()
