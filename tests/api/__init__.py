"""Which tests show what a document says, line by line.

``python -m tests.api DOCUMENT`` checks a document against ``tests/api/NNN.toml``, NNN being the first three
characters of its file name. For every line that is not blank there is one entry::

    12 = { sha1 = "<first 12 hex digits of the line's SHA-1>", tests = ["tests/x/test_y.py::test_z"] }
    13 = { sha1 = "…", reason = "layout" }

A line that declares something or says how it behaves names the tests that show it. The reasons: ``layout`` is
punctuation, headings and plumbing of the document's language; ``duplicate`` says once more what another line
says; ``aside`` says nothing about behaviour.
"""
