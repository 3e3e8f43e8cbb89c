//! Runs the built command as a user would.
