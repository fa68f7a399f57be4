"""Real inputs, read whole: ``python -m tests.inputs FOLDER``."""
