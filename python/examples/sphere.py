"""Draws the picture of the README: a mixture of three components, fitted to 600 points on the sphere.

    python python/examples/sphere.py docs/images/fit.png

Needs `pip install './python[sklearn,plot]'`.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import numpy as np
from vmfkit import Mixture, VonMisesFisherMixture, plot

directions = np.array([[0.8, -0.6, 0.0], [0.6, 0.64, 0.48], [0.6, 0.0, 0.8]])
truth = Mixture(np.array([0.4, 0.35, 0.25]), directions, np.array([12.0, 25.0, 40.0]))
rows, _ = truth.sample(600, seed=2)

model = VonMisesFisherMixture(n_components=3, random_state=0).fit(rows)
print(model.summary(as_text=True))
path = sys.argv[1] if len(sys.argv) > 1 else "fit.png"
plot.sphere(model, rows, back=False).figure.savefig(path, dpi=80)
