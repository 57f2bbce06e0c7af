"""The engine process, started by the front."""

import sys

from tiremote.worker.engine.process import main

main(sys.argv[1:])
