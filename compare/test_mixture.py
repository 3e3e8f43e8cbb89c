"""Tests of the Python side of the mixture comparison, with a stand-in for our program: `python -m unittest test_mixture` in this folder."""

import json
import tempfile
import unittest
from pathlib import Path

import numpy as np
from scipy.special import ive, logsumexp

import mixture
import mixture_peers
from mixture_data import concentration_of, load, make_data, mean_length, save

FAKE = """#!/usr/bin/env python3
import sys
import json
if sys.argv[1] == "--version":
    print("compare 0.0.0")
    sys.exit()
assert sys.argv[1] == "mixture-times"
rows, dim, components = map(int, sys.argv[2].rsplit("/", 1)[1].split("x"))
works = ["em", "sgd"] if sys.argv[3:] == ["--batch", "256"] else ["em"]
for work in works:
    line = {"work": work, "rows": rows, "dim": dim, "components": components, "element": ELEMENT, "seconds": [2e-6, 1e-6]}
    print(json.dumps(line))
"""
SMALL = mixture.Case(
    2000, 10, 20, "f32", 0.5, (mixture.Goal("em", "paper-em", 2), mixture.Goal("sgd", "paper-sgd", 1e12))
)


def small_problem(dtype=np.float64):
    return make_data(500, 6, 3, 8.0, 1, dtype)


def fake_program(folder, element="f32"):
    path = Path(folder) / "compare"
    path.write_text(FAKE.replace("ELEMENT", repr(element)))
    path.chmod(0o755)
    return path


def ln_likelihoods(x, weights, directions, concentrations):
    """By matrix product and scipy, to check the paper's loops with."""
    s = x.shape[1] / 2 - 1
    ln_i = np.log(ive(s, concentrations)) + concentrations
    ln_c = s * np.log(concentrations) - (s + 1) * np.log(2 * np.pi) - ln_i
    return logsumexp(np.log(weights) + concentrations * (x @ directions.T) + ln_c, axis=1)


class Data(unittest.TestCase):
    def test_components_have_about_the_asked_mean_length(self):
        for dim, length in ((100, 0.5), (384, 0.6), (3, 0.96)):
            self.assertAlmostEqual(mean_length(dim, concentration_of(dim, length)), length, 12)
            x = make_data(20_000, dim, 1, concentration_of(dim, length), 1).x
            self.assertAlmostEqual(float(np.linalg.norm(x.mean(0, dtype=np.float64))), length, delta=0.03)

    def test_files_give_back_the_same_problem(self):
        problem = small_problem(np.float32)
        with tempfile.TemporaryDirectory() as folder:
            save(problem, folder)
            for saved, found in zip(problem, load(folder)):
                np.testing.assert_array_equal(saved, found)
                self.assertEqual(saved.dtype, found.dtype)


class Paper(unittest.TestCase):
    def test_em_pass_has_the_likelihood_and_raises_it(self):
        x, directions, weights, concentrations = small_problem()
        found, *after = mixture_peers.paper_em_pass(x, weights, directions, concentrations)
        self.assertAlmostEqual(found, ln_likelihoods(x, weights, directions, concentrations).sum(), 5)
        self.assertGreater(ln_likelihoods(x, *after).sum(), found)
        self.assertAlmostEqual(after[0].sum(), 1, 12)

    def test_sgd_gradients_match_finite_differences(self):
        x, directions, weights, concentrations = small_problem()
        sgd = mixture_peers.PaperSgd(weights, 2 * directions, concentrations)
        loss, gradients = sgd.loss_and_gradients(x)
        self.assertAlmostEqual(loss, -ln_likelihoods(x, weights, directions, concentrations).mean(), 5)
        for parameter, gradient in zip(sgd.parameters, gradients):
            for place in np.ndindex(parameter.shape):
                kept, step = parameter[place], 1e-5
                parameter[place] = kept + step
                above, _ = sgd.loss_and_gradients(x)
                parameter[place] = kept - step
                below, _ = sgd.loss_and_gradients(x)
                parameter[place] = kept
                self.assertAlmostEqual((above - below) / (2 * step), gradient[place], 7)

    def test_sgd_steps_lower_the_loss(self):
        x, directions, weights, concentrations = small_problem()
        sgd = mixture_peers.PaperSgd(weights, directions, concentrations)
        losses = [sgd.step(x) for _ in range(20)]
        self.assertLess(losses[-1], losses[0])


class Peers(unittest.TestCase):
    def test_every_peer_gives_a_line_that_the_driver_reads(self):
        case = SMALL._replace(dim=40, components=30)
        with tempfile.TemporaryDirectory() as folder:
            mixture.write_problem(case, folder)
            problem = load(folder)
        lines = "\n".join(json.dumps(mixture_peers.line_of(peer, problem)) for peer in mixture_peers.PEERS)
        found = mixture.read_lines(lines, case, list(mixture_peers.PEERS))
        self.assertEqual(set(found), set(mixture.PEER_NAMES))

    def test_the_sgd_batch_is_the_same_on_both_sides(self):
        self.assertEqual(mixture.SGD_BATCH, mixture_peers.SGD_BATCH)


class Driver(unittest.TestCase):
    def test_a_run_with_a_stand_in_gives_one_row_a_goal(self):
        lone = mixture.Case(1000, 3, 5, "f32", 0.9, nanoseconds=0.15)
        with tempfile.TemporaryDirectory() as folder:
            text = mixture.report(fake_program(folder), [SMALL, lone], 2)
        rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
        self.assertEqual([row.split(" | ")[-1] for row in rows], ["met |", "missed |", "met within 2x |"])
        self.assertIn("| 1 us (1.5 us) |", rows[0])
        self.assertIn("| 0.2 ns a row and component |", rows[2])

    def test_peers_alone_leave_our_cells_empty(self):
        times = {(SMALL, "paper-em"): [0.5], (SMALL, "paper-sgd"): [5.0]}
        rows = mixture.goals_table([SMALL], times)[2:4]
        self.assertTrue(all(row.endswith("| - |") for row in rows))

    def test_a_program_that_answers_something_else_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(mixture.Failure, "expected .*f32"):
                mixture.run_ours(fake_program(folder, "f64"), SMALL, f"{folder}/{SMALL.folder}")
        for text in ("", "em 1.0", '{"work": "em"}'):
            with self.assertRaises(mixture.Failure):
                mixture.read_lines(text, SMALL, ["em"])

    def test_a_program_without_the_subcommand_fails_with_its_message(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "compare"
            program.write_text("#!/bin/sh\necho unrecognized subcommand >&2\nexit 2\n")
            program.chmod(0o755)
            with self.assertRaisesRegex(mixture.Failure, "unrecognized subcommand"):
                mixture.run_ours(program, SMALL, folder)

    def test_another_likelihood_than_the_paper_s_is_refused(self):
        theirs = {"paper-em": {"ln_likelihood": 1000.0}}
        mixture.check_likelihood({"em": {}}, theirs)
        mixture.check_likelihood({"em": {"ln_likelihood": 1000.1}}, theirs)
        with self.assertRaises(mixture.Failure):
            mixture.check_likelihood({"em": {"ln_likelihood": 1010.0}}, theirs)


if __name__ == "__main__":
    unittest.main()
