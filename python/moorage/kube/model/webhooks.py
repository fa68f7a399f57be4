"""Webhooks of admission."""

from msgspec import structs

from .admission_policies import (
    ADMISSION_GROUP,
    EQUIVALENT,
    FAIL,
    MatchResources,
    NamedExpression,
    ResourceRule,
)
from .admission_policies import KINDS as POLICIES
from .meta import LabelSelector, Object, Struct
from .policy import ResourceQuota


class RuleWithOperations(Struct, frozen=True):
    """Operations and resources, as in a `ResourceRule`."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class ServiceReference(Struct, frozen=True):
    """The service that a webhook is asked by."""

    namespace: str = ""
    name: str = ""


class WebhookClientConfig(Struct, frozen=True):
    """Where a webhook is; without a service at a URL."""

    service: ServiceReference | None = None


class Webhook(Struct, frozen=True):
    """A server that the API server asks about requests."""

    name: str = ""
    rules: tuple[RuleWithOperations, ...] = ()
    failure_policy: str = FAIL
    match_policy: str = EQUIVALENT
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    match_conditions: tuple[NamedExpression, ...] = ()
    client_config: WebhookClientConfig = WebhookClientConfig()

    @property
    def match_resources(self) -> MatchResources:
        """Its rules and selectors as those of a policy."""
        return MatchResources(
            namespace_selector=self.namespace_selector,
            object_selector=self.object_selector,
            resource_rules=tuple([ResourceRule(**structs.asdict(rule)) for rule in self.rules]),
            match_policy=self.match_policy,
        )


class ValidatingWebhookConfiguration(Object, frozen=True):
    """Webhooks that refuse requests."""

    kind: str = "ValidatingWebhookConfiguration"
    api_version: str = f"{ADMISSION_GROUP}/v1"
    webhooks: tuple[Webhook, ...] = ()


class MutatingWebhookConfiguration(Object, frozen=True):
    """Webhooks that change objects, and refuse requests."""

    kind: str = "MutatingWebhookConfiguration"
    api_version: str = f"{ADMISSION_GROUP}/v1"
    webhooks: tuple[Webhook, ...] = ()


KINDS = (ValidatingWebhookConfiguration, MutatingWebhookConfiguration)
"""The kinds of this module that files are decoded to."""

DECIDERS: tuple[type[Object], ...] = (*KINDS, *POLICIES, ResourceQuota)
"""The kinds without which everything that a controller or a scheduler writes is admitted."""
