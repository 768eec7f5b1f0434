"""Settings for every test."""

import os

from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, and nothing of what is tested.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Two workers share the cores, and a thread that spins while it waits takes the other's.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def pytest_collection_modifyitems(items):
    """Begin with what trains: a long test that came last would leave a worker idle."""
    items.sort(key=lambda item: item.get_closest_marker("training") is None)
