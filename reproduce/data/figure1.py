"""Writes figure1.csv: the modified Bessel function I_s(x) by scipy, beside ln I_s(x) to 25 digits by mpmath; and the same
for figure1_block.csv, the paper's block operation: I_100(x) for 3 x 4 arguments drawn uniformly from [0, 1).

Run it in this folder with numpy, scipy and mpmath installed:  python figure1.py
scipy_iv is scipy.special.iv as it is; scipy_ln is the better of scipy's two logarithms, ln(iv) and ln(ive) + x: the second
outlives the first at large x and small order, the first the second where ive, smaller by e^-x, underflows earlier.
reference_rest is what the f64 nearest to the reference leaves out, so that errors can be had in plain f64 arithmetic.
"""

import mpmath
import numpy
import scipy
from scipy.special import iv, ive

ORDERS = range(0, 1001, 25)
ARGUMENTS = [0.03, 0.1, 1.0, 10.0, 100.0, 500.0]

BLOCK_ORDER = 100
BLOCK_SHAPE = (3, 4)
SEED = 1


def ln_bessel_i(order, x):
    """ln I_s(x) from the power series, whose terms are all positive: 60 digits are far more than the rounding eats."""
    with mpmath.workdps(60):
        quarter = mpmath.mpf(x) ** 2 / 4
        term = total = mpmath.mpf(1)
        j = 0
        while term > total * mpmath.mpf(10) ** -50:
            j += 1
            term *= quarter / (j * (order + j))
            total += term
        value = order * mpmath.log(mpmath.mpf(x) / 2) - mpmath.loggamma(order + 1) + mpmath.log(total)
        check = mpmath.log(mpmath.besseli(order, mpmath.mpf(x)))
        assert abs(value - check) < mpmath.mpf(10) ** -30 * max(1, abs(value))
        return mpmath.nstr(value, 25), repr(float(value - mpmath.mpf(float(value))))


def write(path, pairs):
    with open(path, "w") as out:
        versions = f"scipy {scipy.__version__}, numpy {numpy.__version__}, mpmath {mpmath.__version__}"
        out.write(f"# made by figure1.py with {versions}\n")
        out.write("order,x,scipy_iv,scipy_ln,reference,reference_rest\n")
        with numpy.errstate(divide="ignore"):
            for order, x in pairs:
                scaled = numpy.log(ive(order, x)) + x
                ln = scaled if numpy.isfinite(scaled) else numpy.log(iv(order, x))
                reference, rest = ln_bessel_i(order, x)
                out.write(f"{order},{x},{float(iv(order, x))!r},{float(ln)!r},{reference},{rest}\n")


def main():
    write("figure1.csv", [(order, x) for x in ARGUMENTS for order in ORDERS])
    block = numpy.random.default_rng(SEED).random(BLOCK_SHAPE)
    write("figure1_block.csv", [(BLOCK_ORDER, float(x)) for x in block.ravel()])


if __name__ == "__main__":
    main()
