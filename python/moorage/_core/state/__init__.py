"""A cluster's state: node table and tree, ledger, pod classes, domains, images, view."""
