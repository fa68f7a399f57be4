"""Why a pod fits nowhere, and which changes would help."""
