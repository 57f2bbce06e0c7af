"""The engine process, started by the front."""

import os
import sys

from tiremote.worker.engine.orphans import die_with

if __name__ == "__main__":
    # Before the imports that take long: a front that dies meanwhile must not leave this process behind.
    die_with(int(os.environ["TIREMOTE_FRONT"]))

    from tiremote.worker.engine.process import main

    main(sys.argv[1:])
