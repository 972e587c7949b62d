"""rondo generate on the demo's model; without the model these tests are skipped."""
import os
import subprocess
import unittest

from support import CONFIGS, PROGRAM, ProgramTest

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


if __name__ == "__main__":
    unittest.main()
