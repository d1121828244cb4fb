"""A program of a user that runs a worker by itself."""

import logging

from worker_app import worker  # type: ignore[import-not-found]

if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    worker.run()
    logging.info("the program goes on")
