"""The demo's consumer with a log on standard error, as an application with Python's usual logging has it."""

import logging
import time

from streaming.demo.consumer import main

if __name__ == "__main__":
    logging.Formatter.converter = time.gmtime
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    main()
