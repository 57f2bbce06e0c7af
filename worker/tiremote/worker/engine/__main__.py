"""The engine process, started by the front."""

import sys

from tiremote.worker.engine.process import main

if __name__ == "__main__":
    main(sys.argv[1:])
