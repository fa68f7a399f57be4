"""What tests may know of the inside of a room: a file for each room that the house is to have.

A door forwards names and has no logic. Above each block of imports a comment says why tests need them. A test
imports from `moorage`, a package directly below it, or from here; `test_doors.py` refuses deeper imports.
"""
