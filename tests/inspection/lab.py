"""A real JupyterLab on this machine's own address, with a home, a notebook and a kernel of its own."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager

TOKEN = "only-for-this-test"
SETTINGS = [
    "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", "--ServerApp.open_browser=False", f"--IdentityProvider.token={TOKEN}",
    "--ServerApp.allow_root=True",
    "--LabApp.extension_manager=readonly", "--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
]  # fmt: skip
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/lab")


def notebook(*cells):
    """Cells that have not been run."""
    code = [
        {"id": f"cell{n}", "cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None}
        for n, text in enumerate(cells)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return json.dumps({"cells": code, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5})


@contextmanager
def jupyterlab(folder, **more):
    """Serve a folder; gives the address of its notebooks. `more` are variables of the environment, also of the kernels."""
    homes = ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR",
             "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")  # fmt: skip
    own = {name: str(folder / ".home" / name.lower()) for name in homes}
    for place in own.values():
        os.makedirs(place)
    command = [sys.executable, "-m", "jupyterlab", *SETTINGS, f"--ServerApp.root_dir={folder}"]
    environment = os.environ | own | more
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as lab:
        try:
            assert lab.stderr is not None
            said = []
            for line in lab.stderr:
                said.append(line)
                if found := ADDRESS.search(line):
                    break
            else:
                raise AssertionError("".join(said))
            yield lambda name: f"{found[0]}/tree/{name}?token={TOKEN}"
        finally:
            lab.terminate()
            lab.stderr.close()
