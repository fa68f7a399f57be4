"""Tests that hold the rules of the house: arrows, sizes, packaging, what a native source may do."""
