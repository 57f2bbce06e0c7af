"""``python -m tiremote.worker``: the same as the command ``tiremote-worker``."""

from tiremote.worker.command import main

if __name__ == "__main__":
    main(prog_name="tiremote-worker")
