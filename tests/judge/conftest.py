import pytest
from synthetic_training import Bench


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench()
