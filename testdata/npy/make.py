"""Writes the sample files of this folder: the same four unit rows of dimension 3 in every layout that NumPy knows.

Run with NumPy 2: python make.py
"""

import numpy
from numpy.lib import format

ROWS = numpy.array([[0.6, 0.8, 0.0], [0.0, 0.6, 0.8], [0.8, 0.0, 0.6], [0.48, 0.6, 0.64]])

for name, dtype in [("f2", "<f2"), ("f4", "<f4"), ("f8", "<f8"), ("f2_big_endian", ">f2"), ("f4_big_endian", ">f4"), ("f8_big_endian", ">f8")]:
    numpy.save(f"{name}.npy", ROWS.astype(dtype))

for name, dtype in [("f4_fortran", "<f4"), ("f8_fortran_big_endian", ">f8")]:
    numpy.save(f"{name}.npy", numpy.asfortranarray(ROWS.astype(dtype)))

for name, version in [("f8_version_2", (2, 0)), ("f8_version_3", (3, 0))]:
    with open(f"{name}.npy", "wb") as file:
        format.write_array(file, ROWS, version=version)

numpy.save("weights.npy", numpy.array([1.0, 2.0, 0.5, 1.5]))
numpy.save("three_axes.npy", ROWS.reshape(2, 2, 3))
numpy.save("integers.npy", numpy.eye(3, dtype="<i8"))
numpy.save("objects.npy", numpy.array([["a", 1], [None, 2]], dtype=object), allow_pickle=True)
numpy.save("structured.npy", numpy.zeros(2, dtype=[("x", "<f4"), ("y", "<f4")]))
