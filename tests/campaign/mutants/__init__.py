"""Mutation testing: changes of the code, one at a time, that the tests of their room have to notice."""
