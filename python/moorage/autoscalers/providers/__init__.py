"""What cloud providers add to Karpenter, as data and rules: no state, and no object of a cluster is changed.

To add a provider: write what it registers as a `KnownLabels` in ``known_labels.py``, and enter it in
`PROVIDERS` under the API group of its node classes. Pools that refer to such a class then have its well
known, restricted and normalized keys everywhere: in pools, pods, volumes and on simulated nodes. If its
instance types are known, they follow from rules in a package of its own, such as ``aws``.
"""

from __future__ import annotations
