"""Admission policies, their bindings, and webhooks: what decides about requests besides the API server."""

from typing import Any

from msgspec import structs

from .meta import LabelSelector, Object, Struct
from .policy import ResourceQuota

ADMISSION_GROUP = "admissionregistration.k8s.io"
FAIL, IGNORE = "Fail", "Ignore"
EQUIVALENT, EXACT = "Equivalent", "Exact"
_V1 = f"{ADMISSION_GROUP}/v1"


class RuleWithOperations(Struct, frozen=True):
    """Operations and resources; "*" stands for all, ``pods/*`` for all subresources of pods."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class ResourceRule(RuleWithOperations, frozen=True):
    """The rule of a policy, which may be about the objects of some names alone."""

    resource_names: tuple[str, ...] = ()


class MatchResources(Struct, frozen=True):
    """Which requests a policy or a binding is for."""

    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: tuple[ResourceRule, ...] = ()
    exclude_resource_rules: tuple[ResourceRule, ...] = ()
    match_policy: str = EQUIVALENT


class NamedExpression(Struct, frozen=True):
    """A match condition, or a variable."""

    name: str = ""
    expression: str = ""


class ParamKind(Struct, frozen=True):
    """The kind of the objects that parametrise a policy."""

    api_version: str = ""
    kind: str = ""


class ParamRef(Struct, frozen=True):
    """The objects that parametrise a binding."""

    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    parameter_not_found_action: str = "Deny"


class Validation(Struct, frozen=True):
    """An expression that has to be true."""

    expression: str = ""
    message: str = ""
    reason: str = ""
    message_expression: str = ""


class PolicySpec(Struct, frozen=True):
    """What both kinds of policies have."""

    param_kind: ParamKind | None = None
    match_constraints: MatchResources = MatchResources()
    match_conditions: tuple[NamedExpression, ...] = ()
    variables: tuple[NamedExpression, ...] = ()
    failure_policy: str = FAIL


class ValidatingAdmissionPolicySpec(PolicySpec, frozen=True):
    """Spec of a ValidatingAdmissionPolicy."""

    validations: tuple[Validation, ...] = ()


class ValidatingAdmissionPolicy(Object, frozen=True):
    """Expressions that objects have to fulfil."""

    kind: str = "ValidatingAdmissionPolicy"
    api_version: str = _V1
    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()


class PatchExpression(Struct, frozen=True):
    """The expression of a patch."""

    expression: str = ""


class Mutation(Struct, frozen=True):
    """An expression that makes a patch."""

    patch_type: str = ""
    apply_configuration: PatchExpression | None = None
    json_patch: PatchExpression | None = None


class MutatingAdmissionPolicySpec(PolicySpec, frozen=True):
    """Spec of a MutatingAdmissionPolicy."""

    mutations: tuple[Mutation, ...] = ()
    reinvocation_policy: str = "Never"


class MutatingAdmissionPolicy(Object, frozen=True):
    """Expressions that change objects."""

    kind: str = "MutatingAdmissionPolicy"
    api_version: str = _V1
    spec: MutatingAdmissionPolicySpec = MutatingAdmissionPolicySpec()


class PolicyBindingSpec(Struct, frozen=True):
    """What the bindings of both kinds of policies have."""

    policy_name: str = ""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None


class ValidatingAdmissionPolicyBindingSpec(PolicyBindingSpec, frozen=True):
    """Spec of the binding of a ValidatingAdmissionPolicy."""

    validation_actions: tuple[str, ...] = ()


class ValidatingAdmissionPolicyBinding(Object, frozen=True):
    """Lets a ValidatingAdmissionPolicy act."""

    kind: str = "ValidatingAdmissionPolicyBinding"
    api_version: str = _V1
    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()


class MutatingAdmissionPolicyBinding(Object, frozen=True):
    """Lets a MutatingAdmissionPolicy act."""

    kind: str = "MutatingAdmissionPolicyBinding"
    api_version: str = _V1
    spec: PolicyBindingSpec = PolicyBindingSpec()


class PolicyParameter(Object, frozen=True):
    """An object that parametrises policies, of a kind that is not read. It is named after both."""

    kind: str = "PolicyParameter"
    api_version: str = "admission.moorage.dev/v1"
    value: dict[str, Any] = {}


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
    api_version: str = _V1
    webhooks: tuple[Webhook, ...] = ()


class MutatingWebhookConfiguration(Object, frozen=True):
    """Webhooks that change objects, and refuse requests."""

    kind: str = "MutatingWebhookConfiguration"
    api_version: str = _V1
    webhooks: tuple[Webhook, ...] = ()


ADMISSION_POLICIES = (
    *(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding),
    *(MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding),
)
"""The kinds of this module that files are decoded to."""

WEBHOOKS = (ValidatingWebhookConfiguration, MutatingWebhookConfiguration)

DECIDERS: tuple[type[Object], ...] = (*WEBHOOKS, *ADMISSION_POLICIES, ResourceQuota)
"""The kinds without which everything that a controller or a scheduler writes is admitted."""
