//! How sure the estimates are: standard errors, intervals, cones and tests.
