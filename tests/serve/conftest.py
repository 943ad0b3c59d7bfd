"""Models that write all tokens at once, one of each way, each served by a process of its own."""

import signal

import pytest

from inspection.parallels import WAYS, save_parallels
from serve.test_serve import start


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    return save_parallels(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def addresses(folders):
    """All of them start at the same time: most of that is importing."""
    processes = {writes: start("--port", "0", model=folder) for writes, folder in folders.items()}
    yield {writes: process.stderr.readline().split()[0] for writes, process in processes.items()}
    for process in processes.values():
        process.send_signal(signal.SIGINT)
    for process in processes.values():
        out, said = process.communicate(timeout=30)
        assert (process.returncode, out, said) == (0, "", "")


@pytest.fixture(params=WAYS)
def writes(request):
    return request.param
