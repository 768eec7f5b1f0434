"""What run does, step by step: choose, ask, propose, take apart, foresee, show."""
