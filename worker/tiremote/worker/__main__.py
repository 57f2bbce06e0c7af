"""``python -m tiremote.worker``: the same as the command ``tiremote-worker``."""

from tiremote.worker.command import main

main(prog_name="tiremote-worker")
