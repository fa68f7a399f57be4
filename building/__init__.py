"""How the compiled core is built: setup.py, tests and jobs take it from here.

Needs the standard library alone, unless a module says otherwise.
"""
