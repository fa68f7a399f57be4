"""Virtual time: clocks that stand still, or move with attempts."""
