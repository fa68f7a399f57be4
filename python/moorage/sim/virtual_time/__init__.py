"""Virtual time: clocks that stand still, and the loop that takes a scheduler through it."""
