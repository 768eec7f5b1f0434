"""Settings for every test."""

import os
import signal

from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, and nothing of what is tested.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Two workers share the cores, and a thread that spins while it waits takes the other's.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Searches neither use what the user has learnt elsewhere, nor add to it.
os.environ["INFRARSI_BANK"] = ""

# A shell that starts us in its background has us ignore Ctrl-C, and so would all that we start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Begin with what trains, the longest first: it would leave a worker idle, came it last."""
    items.sort(
        key=lambda item: (
            item.get_closest_marker("training") is None,
            "test_quickstart" not in item.nodeid,
        )
    )
