#!/usr/bin/env python3
"""Writes crates/vmfkit-special/src/bessel/series.rs: the polynomials of MATH.md, sections 3, 5 and 6.

    python3 testdata/bessel_series.py            write the file
    python3 testdata/bessel_series.py --check    exit 1 if the file differs from what this program makes

The large-u and inverse series are exact rationals (standard library only). The circle (d = 2) fits and the gamma tables need mpmath; when it
is absent, `--check` compares everything else and says so.
"""

import os
import re
import sys
from fractions import Fraction as Q

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = os.path.join(HERE, "..", "crates", "vmfkit-special", "src", "bessel", "series.rs")
LOG_TERMS = [4, 6, 8, 10, 12, 13, 14]
RATIO_TERMS = [4, 6, 8, 10, 12, 14, 16, 19]
INVERSE_TERMS = [3, 4, 5, 6, 8, 9, 12]


# Polynomials in q are lists of Fractions, lowest power first.
def add(a, b):
    n = max(len(a), len(b))
    return [(a[i] if i < len(a) else 0) + (b[i] if i < len(b) else 0) for i in range(n)]


def mul(a, b):
    out = [Q(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            out[i + j] += x * y
    return out


def scale(a, s):
    return [s * x for x in a]


def derivative(a):
    return [i * x for i, x in enumerate(a)][1:] or [Q(0)]


def divide_one_minus(a):
    """a / (1 - q); the division is exact."""
    out, carry = [], Q(0)
    for x in a[:-1]:
        carry += x
        out.append(carry)
    assert carry + a[-1] == 0
    return out


def debye(count):
    """tau_1 .. tau_count and D_1 .. D_{count-1} of MATH.md (3.2), (3.3)."""
    one_minus = [Q(1), Q(-1)]
    t = [[Q(1)]]
    for j in range(1, count + 1):
        total = [Q(0)]
        for i in range(1, j):
            total = add(total, mul(t[i], t[j - i]))
        inner = add(scale(t[j - 1], Q(2 - j)), [Q(0)] + scale(derivative(t[j - 1]), Q(-2)))
        total = add(total, mul(one_minus, inner))
        t.append(scale(total, Q(-1, 2)))
    tau = [None]
    for a in t[1:]:
        while a[-1] == 0:
            a = a[:-1]
        tau.append(divide_one_minus(a))
    logs = [None]
    for j in range(1, count):
        logs.append([-x / (j + 2 * i) for i, x in enumerate(tau[j + 1])])
    # Stirling: D_j(1) = -B_{j+1}/(j (j+1)).
    bernoulli = [Q(1)]
    for n in range(1, count + 1):
        c, s = Q(1), Q(0)
        for k in range(n):
            s += c * bernoulli[k]
            c = c * (n + 1 - k) / (k + 1)
        bernoulli.append(-s / (n + 1))
    for j in range(1, count):
        assert sum(logs[j]) == -bernoulli[j + 1] / (j * (j + 1)), j
    return tau, logs


def inverse(count):
    """Q_1 .. Q_{count-1} in y = c^2 of MATH.md (6.3): g_n = c^{n+1} (1 - y) Q_n(y)."""
    g = [[Q(0), Q(1)]]  # in powers of c
    for n in range(1, count):
        total = [Q(0)] + g[n - 1]
        for i in range(n):
            j = n - 1 - i
            total = add(total, mul([Q(0), Q(1), Q(0), Q(-1)], mul(g[i], derivative(g[j]))))
            total = add(total, scale(mul(g[i], g[j]), Q(-1)))
        while total[-1] == 0:
            total.pop()
        g.append(total)
    out = [None]
    for n in range(1, count):
        assert all(x == 0 for x in g[n][: n + 1]) and all(x == 0 for x in g[n][n + 2 :: 2])
        out.append(divide_one_minus(g[n][n + 1 :: 2]))
    assert g[2][3::2] == [2, -7, 5]
    return out


def number(x):
    text = repr(float(x))
    if "e" not in text and "." not in text:
        text += ".0"
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text


def horner(coefs, name):
    text = number(coefs[-1])
    for c in reversed(coefs[:-1]):
        text = f"({number(c)} + {name} * {text})"
    return text


def split(coefs, x, x2):
    """Even and odd powers by two Horner chains, which the processor runs side by side."""
    if len(coefs) == 1:
        return number(coefs[0])
    even, odd = coefs[0::2], coefs[1::2]
    return f"{horner(even, x2)} + {x} * {horner(odd, x2)}"


def combine(names, x, x2):
    def chain(items):
        text = items[-1]
        for c in reversed(items[:-1]):
            text = f"({c} + {x2} * {text})"
        return text

    even, odd = names[0::2], names[1::2]
    return f"{chain(even)} + {x} * {chain(odd)}"


def polynomial(name, coefs):
    args = "_q: f64, _q2: f64" if len(coefs) == 1 else ("q: f64, _q2: f64" if len(coefs) == 2 else "q: f64, q2: f64")
    return f"#[inline(always)]\nfn {name}({args}) -> f64 {{\n    {split(coefs, 'q', 'q2')}\n}}\n"


def circle():
    """Monomial coefficients of sigma and L at d = 2 as functions of 1/k, MATH.md (5.1)."""
    import mpmath as mp

    mp.mp.dps = 60

    def log_part(k):
        return mp.log(mp.besseli(0, k)) - k + mp.log(2 * mp.pi * k) / 2

    def ratio_part(k):
        a = mp.besseli(1, k) / mp.besseli(0, k)
        return k * (mp.mpf(1) / 2 - k * (1 - a))

    def fit(f, low, high, count):
        """Chebyshev interpolation on 1/k in [low, high], turned into powers of z in [-1, 1]; f(0) is its limit."""
        nodes = [mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]
        values = [f(1 / (low + (high - low) * (z + 1) / 2)) for z in nodes]
        cheb = []
        for n in range(count):
            s = mp.fsum(v * mp.cos(n * mp.acos(z)) for v, z in zip(values, nodes))
            cheb.append(s * (2 if n else 1) / count)
        out = [mp.mpf(0)] * count
        t0, t1 = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
        for n in range(count):
            t = t0 if n == 0 else t1
            for i, x in enumerate(t):
                out[i] += cheb[n] * x
            if n >= 1:
                t2 = [mp.mpf(0)] + [2 * x for x in t1]
                for i, x in enumerate(t0):
                    t2[i] -= x
                t0, t1 = t1, t2
        worst = mp.mpf(0)
        for i in range(400):
            z = mp.mpf(2 * i + 1) / 400 - 1
            v = f(1 / (low + (high - low) * (z + 1) / 2))
            worst = max(worst, abs(mp.polyval(out[::-1], z) / v - 1))
        return out, worst

    text = ""
    quarter, eighth, twentyeighth = mp.mpf(1) / 4, mp.mpf(1) / 8, mp.mpf(1) / 28
    for name, f, what in (("ratio", ratio_part, "sigma"), ("log", log_part, "L / (1/k)")):
        g = f if name == "ratio" else (lambda k: log_part(k) * k)
        regions = (
            ("close", eighth, quarter, 28),
            ("near", twentyeighth, eighth, 26 if name == "ratio" else 22),
            ("far", mp.mpf(0), twentyeighth, 13 if name == "ratio" else 11),
        )
        # The logarithm's own series is better below k = 8.
        for region, low, high, count in regions if name == "ratio" else regions[1:]:
            coefs, worst = fit(g, low, high, count)
            assert worst < mp.mpf("2e-17"), (name, region, worst)
            mid = (high + low) / (high - low)
            text += f"/// {what} at d = 2, 1/k in [{mp.nstr(low, 6)}, {mp.nstr(high, 6)}]; relative error of the fit {mp.nstr(worst, 2)}.\n"
            text += f"#[inline]\npub(super) fn circle_{name}_{region}(w: f64) -> f64 {{\n"
            text += f"    let z = {number(2 / (high - low))} * w - {number(mid)};\n    let z2 = z * z;\n"
            text += f"    {split(coefs, 'z', 'z2')}\n}}\n\n"
    return text


def tables():
    """ln C_d(0) and ln Gamma(d/2) for d = 0 .. 128, correctly rounded (entry 0 is unused)."""
    import mpmath as mp

    mp.mp.dps = 60
    text = ""
    for name, f, what in (
        ("LN_UNIFORM", lambda d: mp.loggamma(d / 2) - mp.log(2) - d / 2 * mp.log(mp.pi), "ln C_d(0) = -ln area(S^{d-1})"),
        ("LN_GAMMA_HALF", lambda d: mp.loggamma(d / 2), "ln Gamma(d/2)"),
    ):
        values = ["0.0"] + [number(f(mp.mpf(d))) for d in range(1, 129)]
        text += f"/// {what} at index d; index 0 is unused.\npub(super) static {name}: [f64; 129] = [\n"
        for i in range(0, 129, 6):
            text += "    " + ", ".join(values[i : i + 6]) + ",\n"
        text += "];\n\n"
    return text


def build():
    tau, logs = debye(max(RATIO_TERMS) + 1)
    inv = inverse(max(INVERSE_TERMS))
    out = [
        "//! Generated by testdata/bessel_series.py from exact rationals; do not edit.\n",
        "//!\n",
        "//! `log_N(q, w)`: L of MATH.md (3.3) with N terms, w = 1/u. `ratio_N(q, w)`: sigma of (3.2) with N terms.\n",
        "//! `inverse_N(y, x)`: the bracket of (6.3) with N terms, y = c^2, x = c/(d-1).\n",
        "//! `circle_*`: the same L (times k) and sigma at d = 2 as polynomials in 1/k, (5.1).\n\n",
    ]
    for j in range(1, max(LOG_TERMS) + 1):
        out.append(polynomial(f"d{j}", logs[j]))
    for j in range(2, max(RATIO_TERMS) + 2):
        out.append(polynomial(f"tau{j}", tau[j]))
    for n in range(1, max(INVERSE_TERMS)):
        out.append(polynomial(f"g{n}", inv[n]))
    for n in LOG_TERMS:
        names = [f"d{j}(q, q2)" for j in range(1, n + 1)]
        out.append(
            f"#[inline]\npub(super) fn log_{n}(q: f64, w: f64) -> f64 {{\n    let (q2, w2) = (q * q, w * w);\n"
            f"    w * ({combine(names, 'w', 'w2')})\n}}\n"
        )
    for n in RATIO_TERMS:
        names = [f"tau{j}(q, q2)" for j in range(2, n + 2)]
        out.append(
            f"#[inline]\npub(super) fn ratio_{n}(q: f64, w: f64) -> f64 {{\n    let (q2, w2) = (q * q, w * w);\n"
            f"    {combine(names, 'w', 'w2')}\n}}\n"
        )
    for n in INVERSE_TERMS:
        names = [f"g{j}(y, y2)" for j in range(1, n)]
        out.append(
            f"#[inline]\npub(super) fn inverse_{n}(y: f64, x: f64) -> f64 {{\n    let y2 = y * y;\n"
            + ("    let x2 = x * x;\n" if n > 3 else "")
            + f"    {combine(names, 'x', 'x2')}\n}}\n"
        )
    return "".join(out) + "\n"


def main():
    rational = build()
    try:
        fits = circle() + tables()
    except ImportError:
        fits = None
    if "--check" in sys.argv:
        with open(TARGET) as file:
            have = file.read()
        if fits is None:
            print("mpmath is not installed: the d = 2 fits and the gamma tables were not compared", file=sys.stderr)
            same = have.startswith(rational)
        else:
            same = have == rational + fits
        print("series.rs is as generated" if same else "series.rs differs from what bessel_series.py makes")
        return 0 if same else 1
    if fits is None:
        sys.exit("mpmath is needed to write the file: python3 -m pip install mpmath")
    os.makedirs(os.path.dirname(TARGET), exist_ok=True)
    with open(TARGET, "w") as file:
        file.write(rational + fits)
    return 0


if __name__ == "__main__":
    sys.exit(main())
