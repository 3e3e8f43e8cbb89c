"""Reference values of the law of t = mu.x under a von Mises-Fisher density: writes projection.csv beside this file.

    pip install python-flint
    python testdata/projection.py            # the table, half a minute
    python testdata/projection.py --nodes    # the Gauss-Legendre rule in projection.rs

Columns: the dimension, the concentration, the deviation s = 1 - t (an exact double), P(T <= 1 - s) and P(T > 1 - s).

In the angle theta, s = 2 sin(theta/2)^2, the density is exp(-k s) sin(theta)^(d-2) up to a constant. Arb encloses its
integral rigorously (acb.integral), with every tail scaled by the value at its edge; a row is written only if the enclosure
has 25 digits. Deviations are placed where the density is exp(-z^2/2) of that at its mode, for z from 0.1 to 33.9 on both
sides (tails to 1e-250), next to the mode itself and next to the ends.
"""

import sys
from pathlib import Path

from flint import acb, arb, ctx

ctx.prec = 384
DIMENSIONS = [2, 3, 4, 5, 10, 50, 100, 768, 4096, 100_000, 10_000_000]
SIDES = [0.1, 1.3, 4.0, 12.0, 33.9]


class Law:
    def __init__(self, d, k):
        self.m, self.k = d - 2, arb(k)
        m, kk = arb(self.m), self.k
        root = (m * m + 4 * kk * kk).sqrt()
        # The mode; on the circle it is 0, and any positive angle below the first width serves.
        self.mode = m * (root + 2 * kk + m) / ((root + 2 * kk) * (m + root)) if self.m else 1 / (1 + kk)
        centre = self.angle(self.mode)
        self.lower, self.upper = self.tail(centre, -1), self.tail(centre, +1)
        self.total = self.lower + self.upper

    @staticmethod
    def angle(s):
        return 2 * (s / 2).sqrt().asin()

    def ln(self, theta):
        """ln g at a real angle."""
        power = self.m * theta.sin().log() if self.m else 0
        return power - 2 * self.k * (theta / 2).sin() ** 2

    def tail(self, edge, side):
        """The integral of g/g(edge) from the edge outwards."""
        pi, top = arb.pi(), self.ln(edge)
        end = pi if side > 0 else arb(0)
        reach = abs(end - edge)
        # Cut where g < exp(-200) g(edge): a bisection of the logarithm of the distance.
        a, b = -1200.0, 0.0
        far = lambda e: self.ln(edge + side * reach * arb(e).exp()) - top < -200
        if far(-1e-9):
            while b - a > 0.01:
                mid = (a + b) / 2
                a, b = (a, mid) if far(mid) else (mid, b)
            reach = reach * arb(b).exp()
        reach = reach.mid()

        def integrand(x, analytic):
            step = side * reach * x
            # cos(edge) - cos(edge + step), without cancellation.
            fall = 2 * self.k * (edge + step / 2).sin() * (step / 2).sin()
            if not self.m:
                return (-fall).exp()
            ratio = (edge + step).sin() / edge.sin()
            if self.m < 6000:
                return (-fall).exp() * ratio**self.m
            return (self.m * ratio.log(analytic=analytic) - fall).exp()

        value = acb.integral(integrand, 0, 1, rel_tol=arb(2) ** -130, abs_tol=arb(2) ** -160, eval_limit=10**6)
        # What was cut is below exp(-200) times the reach of the sphere, relative to the edge.
        return value.real * reach

    def probabilities(self, s):
        """(P(T <= 1 - s), P(T > 1 - s))."""
        edge, centre = self.angle(arb(s)), self.angle(self.mode)
        side = 1 if arb(s) > self.mode else -1
        small = self.tail(edge, side) * (self.ln(edge) - self.ln(centre)).exp() / self.total
        return (small, 1 - small) if side > 0 else (1 - small, small)

    def deviations(self, sides):
        """Doubles where g = exp(-z^2/2) g(mode), on both sides."""
        centre, pi = self.angle(self.mode), arb.pi()
        below = lambda u: centre * arb(-u).exp()
        above = lambda u: centre + (pi - centre) * arb(u - 800).exp()
        for z in sides:
            for place in (below, above):
                inside, outside = 0.0, 800.0
                for _ in range(60):
                    middle = (inside + outside) / 2
                    if self.ln(place(middle)) - self.ln(centre) > -z * z / 2:
                        inside = middle
                    else:
                        outside = middle
                yield float(2 * (place(inside) / 2).sin() ** 2)


def digits(x):
    text = x.str(25, radius=False)
    if x.rel_accuracy_bits() < 84:
        raise ValueError(f"only {x.rel_accuracy_bits()} bits: {x}")
    return text


def concentrations(d, index):
    """From 0 to 1e300, with both sides of 2^60 (d - 2), where the mode is taken by its limit."""
    scale = float(max(1, d - 2))
    small = 1e-300 if index % 2 else 1e-3 * scale
    return [0.0, small, 0.3 * scale, 7 * scale, 1e4 * scale, 2**60 * scale * 0.999, 2**60 * scale * 1.001, 1e300]


def rows():
    for index, d in enumerate(DIMENSIONS):
        for number, k in enumerate(concentrations(d, index)):
            law = Law(d, k)
            points = list(law.deviations(SIDES[(index + number + j) % 5] for j in (0, 2)))
            # Either side of the split, which is the mode, or on the circle 1/max(1, k).
            split = float(law.mode) if d > 2 else 1 / max(1.0, k)
            points.append(split * (1 + (-1) ** number * 1e-9))
            if d in (2, 4, 10):
                points += [split * 1e-12, 2 - 1e-9]
            if d == 2:
                points += [split * 0.01, split * 0.5]
            for s in sorted(set(points)):
                if not 0 < s < 2:
                    continue
                cdf, survival = law.probabilities(s)
                if min(cdf, survival) > 1e-290:
                    yield f"{d},{k!r},{s!r},{digits(cdf)},{digits(survival)}"


def nodes(n=28):
    """The Gauss-Legendre rule on [0, 1]: the distances of the nodes from 1/2, and the weights."""
    for i in range(n // 2):
        x, w = arb.legendre_p_root(n, i, weight=True)
        print(f"    ({float(x / 2)!r}, {float(w / 2)!r}),")


if __name__ == "__main__":
    if "--nodes" in sys.argv:
        nodes()
    else:
        table = list(rows())
        text = "d,kappa,deviation,cdf_of_t,survival_of_t\n" + "\n".join(table) + "\n"
        Path(__file__).with_name("projection.csv").write_text(text)
        print(len(table), "rows", file=sys.stderr)
