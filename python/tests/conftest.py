"""Fixtures that depend on the environment."""

import os
import shutil

import pytest


@pytest.fixture(scope="session")
def vmf():
    """The command, from VMFKIT_COMMAND or the path."""
    command = os.environ.get("VMFKIT_COMMAND") or shutil.which("vmf")
    if not command:
        pytest.skip("no command `vmf`: VMFKIT_COMMAND says where it is")
    return command
