"""Knob catalogues: which launch settings change speed and not the training, as data."""
