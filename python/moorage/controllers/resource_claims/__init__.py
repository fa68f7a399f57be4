"""The controller of resource claims."""

from .resource_claim_controller import ResourceClaimController as ResourceClaimController
