"""InfraRSI finds changes that train the same model on the same data faster, and proves it."""

__version__ = "0.1.0"
