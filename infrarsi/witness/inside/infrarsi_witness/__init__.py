"""What runs inside the training process: standard library and torch only, Python 3.9 or newer.

Everything in here is guarded: a defect of the witness ends the witness, never the program.
"""

SCHEMA = 1
