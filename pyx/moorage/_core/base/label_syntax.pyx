"""Validation of label keys, label values and selector requirements.

The rules are those of k8s.io/apimachinery v0.36, pkg/labels and pkg/api/validate/content. Error texts are
upstream's, without the path of the object.
"""

import json
import re

from moorage._core.base.quantity cimport parse_int64

cdef str NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
cdef str VALUE = f"({NAME})?"
cdef str DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
cdef str DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
cdef object DNS_SUBDOMAIN_SYNTAX = re.compile(DNS_SUBDOMAIN)
cdef int MAX_NAME = 63
cdef int MAX_DNS_SUBDOMAIN = 253

cdef str NAME_WRONG = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{NAME}')"
)
cdef str KEY_WRONG = (
    f"a valid label key {NAME_WRONG} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
cdef str VALUE_WRONG = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{VALUE}')"
)
cdef str PREFIX_WRONG = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    f"regex used for validation is '{DNS_SUBDOMAIN}')"
)

cdef tuple LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
cdef tuple NODE_OPERATORS = (*LABEL_OPERATORS, "Gt", "Lt")
cdef tuple FIELD_OPERATORS = ("In", "NotIn")


cdef str quoted(object value):
    """Return a value as JSON, as upstream's error texts show it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


cdef str invalid(str path, object value, str detail):
    """Return the text of field.Invalid."""
    return f"{path}: Invalid value: {quoted(value)}: {detail}"


cdef str unsupported(str op, tuple supported):
    """Return the text of field.NotSupported for an operator."""
    supported_text = ", ".join(map(quoted, supported))
    return f"operator: Unsupported value: {quoted(op)}: supported values: {supported_text}"


cdef Py_ssize_t size(str text) except -1:
    """Return the number of UTF-8 bytes of a string."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


cdef bint is_name(str text) except -1:
    """Whether a text is as NAME says."""
    cdef Py_ssize_t at, last = len(text) - 1
    cdef Py_UCS4 one
    for at in range(last + 1):
        one = text[at]
        if u"a" <= one <= u"z" or u"A" <= one <= u"Z" or u"0" <= one <= u"9":
            continue
        if at == 0 or at == last or one not in u"-_.":
            return False
    return last >= 0


cdef str key_detail(str key):
    """Return the error of a label key, "" if it is valid."""
    cdef list parts = key.split("/")
    if len(parts) > 2:
        return KEY_WRONG
    cdef list details = []
    cdef str name = parts.pop()
    cdef str prefix
    for prefix in parts:
        if not prefix:
            details.append("prefix part must be non-empty")
            continue
        if size(prefix) > MAX_DNS_SUBDOMAIN:
            details.append(f"prefix part must be no more than {MAX_DNS_SUBDOMAIN} bytes")
        if DNS_SUBDOMAIN_SYNTAX.fullmatch(prefix) is None:
            details.append(PREFIX_WRONG)
    if not name:
        details.append("name part must be non-empty")
    elif size(name) > MAX_NAME:
        details.append(f"name part must be no more than {MAX_NAME} bytes")
    if not is_name(name):
        details.append(f"name part {NAME_WRONG}")
    return "; ".join(details)


cdef str value_detail(str value):
    """Return the error of a label value, "" if it is valid."""
    cdef list details = []
    if size(value) > MAX_NAME:
        details.append(f"must be no more than {MAX_NAME} bytes")
    if value and not is_name(value):
        details.append(VALUE_WRONG)
    return "; ".join(details)


cdef str count_detail(str op, Py_ssize_t count):
    """Return the error of the number of values of an operator, "" if it is valid."""
    if op in ("In", "NotIn") and not count:
        return "for 'in', 'notin' operators, values set can't be empty"
    if op in ("Exists", "DoesNotExist") and count:
        return "values set must be empty for exists and does not exist"
    if op in ("Gt", "Lt") and count != 1:
        return "for 'Gt', 'Lt' operators, exactly one value is required"
    return ""


cdef str joined(list errors):
    """Return distinct errors, at least one, in the form of upstream's Aggregate."""
    cdef list distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def requirement_errors(key: str, operator: str, values: tuple[str, ...]) -> list[tuple[str, object, str]]:
    """Validate the key and the values of a label requirement (labels.NewRequirement).

    Parameters
    ----------
    key, operator : str
        The label key, and In, NotIn, Equals, NotEquals, Exists, DoesNotExist, Gt or Lt.
    values : tuple of str

    Returns
    -------
    list of (str, object, str)
        For each error the path of the field relative to the requirement, its value, and the error text.
    """
    return errors_of(key, operator, values)


cdef list errors_of(str key, str op, tuple values):
    """Return the errors of a label requirement; see `requirement_errors`."""
    cdef list errors = []
    if detail := key_detail(key):
        errors.append(("key", key, detail))
    if detail := count_detail(op, len(values)):
        errors.append(("values", values or None, detail))
    if op in ("Gt", "Lt"):
        for i, value in enumerate(values):
            if parse_int64(value) is None:
                detail = "for 'Gt', 'Lt' operators, the value must be an integer"
                errors.append((f"values[{i}]", value, detail))
    for i, value in enumerate(values):
        if detail := value_detail(value):
            errors.append((f"values[{i}][{key}]", value, detail))
    return errors


cdef str syntax_error(str key, str op, tuple values):
    """Return the error text of labels.NewRequirement, None for a valid requirement."""
    cdef list errors = errors_of(key, op, values)
    return joined([invalid(path, value, why) for path, value, why in errors]) if errors else None


def requirement_error(key: str, operator: str, values: tuple[str, ...], *, node: bool) -> str | None:
    """Validate one entry of matchExpressions.

    Parameters
    ----------
    key, operator : str
        The label key, and In, NotIn, Exists, DoesNotExist or (for nodes) Gt or Lt.
    values : tuple of str
        The values.
    node : bool
        Whether the requirement belongs to a node selector.

    Returns
    -------
    str or None
        The error text of labels.NewRequirement or of its caller, relative to the requirement (apimachinery
        v0.36); None for a valid requirement. A Gt or Lt value must also be a valid label value, so negative
        numbers are errors.
    """
    if node and operator not in NODE_OPERATORS:
        return unsupported(operator, NODE_OPERATORS)
    if not node and operator not in LABEL_OPERATORS:
        return f"{quoted(operator)} is not a valid label selector operator"
    return syntax_error(key, operator, values)


def field_requirement_error(key: str, operator: str, values: tuple[str, ...]) -> str | None:
    """Validate one entry of matchFields.

    Parameters
    ----------
    key, operator : str
        The field, which can only be ``metadata.name``, and In or NotIn.
    values : tuple of str
        Exactly one node name.

    Returns
    -------
    str or None
        The error text of component-helpers v0.36, scheduling/corev1/nodeaffinity, relative to the
        requirement; for the key, that of the API validation. None for a valid requirement.
    """
    if key != "metadata.name":
        return invalid("key", key, "not a valid field selector key")
    if operator not in FIELD_OPERATORS:
        return unsupported(operator, FIELD_OPERATORS)
    return None if len(values) == 1 else invalid("values", values or None, "must have one element")
