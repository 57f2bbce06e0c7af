"""What the README says to type, typed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from real_worker import RealWorker

README = Path(__file__).parents[2] / "README.md"


def test_the_commands_over_a_network_work_as_they_stand(tmp_path: Path, arch: str) -> None:
    """Each machine is a folder; scp copies between them, and only the address is another."""
    text = README.read_text().partition("## Over a network")[2]
    lines = re.findall(r"^(gpu-box|laptop)\$ +(.*?)(?: +#.*)?$", text, re.MULTILINE)
    assert [shlex.split(line)[0] for _, line in lines] == [
        *("tiremote", "tiremote", "scp", "scp"),
        *("tiremote-worker", "tiremote"),
    ]
    machines = {"gpu-box": tmp_path / "gpu-box", "laptop": tmp_path / "laptop"}
    for folder in machines.values():
        folder.mkdir()
    worker = None
    try:
        for machine, line in lines:
            command, *arguments = shlex.split(line)
            here = machines[machine]
            if command == "scp":
                source, target = (_place(each, here, machines["gpu-box"]) for each in arguments)
                shutil.copy(source, target)
            elif command == "tiremote-worker":
                bind = arguments.index("--bind")
                del arguments[bind : bind + 2]
                whole = [str(here / each) if "/" in each else each for each in arguments]
                worker = RealWorker(*whole, arch=arch)
            else:
                address = "tcp://gpu-box:5555" if worker is None else worker.address
                arguments = [address if each.startswith("tcp://") else each for each in arguments]
                done = _tiremote(here, *arguments)
                assert done.returncode == 0, done.stderr
        assert done.stdout == "[1. 1.]\n"
    finally:
        if worker is not None:
            worker.stop()


def _place(path: str, here: Path, gpu_box: Path) -> Path:
    return gpu_box / path.removeprefix("gpu-box:") if path.startswith("gpu-box:") else here / path


def _tiremote(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from tiremote.repl.command import main; main(prog_name='tiremote')"
    script = "x = ti.field(ti.f32, 2)\nx.fill(1)\nprint(x.to_numpy())\n"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, input=script, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
