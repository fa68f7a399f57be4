# cython: auto_pickle=False, nonecheck=True
# So None, and a copy without its fields, are exceptions: Python hands objects to nearly each call.
"""Requirements on labels, as Karpenter has them: algebra over sets of values, of one label and of several.

Rules: Karpenter v1.15.0, pkg/scheduling/requirement.go and requirements.go. Values of a label are bits of an
integer, so that sets are met, joined and compared as numbers. Equal requirements, and equal sets of them, are
one object, which remembers what it was met and compared with.
"""

import re

EXCLUDING = ("NotIn", "DoesNotExist")  # operators that a node without the label meets too
INTEGER = re.compile(r"[+-]?[0-9]+")
LAST = 2**63 - 1
HOSTNAME = "kubernetes.io/hostname"

cdef object ONE = 1  # `1 << place` would be a shift of C
cdef int MOST_SHOWN = 5


def go_integer(str text not None):
    """Return the number that Go's strconv.Atoi reads; None where it fails."""
    number = int(text) if text.isascii() and INTEGER.fullmatch(text) else None
    return number if number is not None and -LAST - 1 <= number <= LAST else None


cpdef list bits(mask):
    """Return the places of the bits that are set, lowest first."""
    cdef bytes text = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
    cdef list places = []
    cdef int byte, bit
    cdef Py_ssize_t at
    for at in range(len(text)):
        byte = <unsigned char>text[at]
        bit = 0
        while byte:
            if byte & 1:
                places.append(8 * at + bit)
            byte >>= 1
            bit += 1
    return places


cdef class Key:
    """A label, the values that were seen of it, each with a bit, and all requirements on it."""

    def __cinit__(self, str name not None):
        self.name, self.values, self.integers, self.places, self.requirements = name, [], [], {}, {}

    cpdef bit(self, str value):
        """Return the bit of a value."""
        place = self.places.get(value)
        if place is None:
            place = self.places[value] = len(self.values)
            self.values.append(value)
            self.integers.append(go_integer(value))
        return ONE << place

    def mask(self, values):
        """Return the bits of some values."""
        mask = 0
        for value in values:
            mask |= self.bit(value)
        return mask

    def names(self, mask):
        """Return the values of a mask, sorted."""
        return sorted([self.values[place] for place in bits(mask)])

    cdef within(self, mask, gte, lte):
        """Those values of a mask that are integers within bounds; all if there are none."""
        if gte is None and lte is None:
            return mask
        met = 0
        for place in bits(mask):
            number = self.integers[place]
            if number is None or (gte is not None and number < gte) or (lte is not None and number > lte):
                continue
            met |= ONE << place
        return met

    def requirement(self, bint complement, mask, gte=None, lte=None, min_values=None):
        """Return the requirement that is so; always the same object."""
        return self.requirement_of(complement, mask, gte, lte, min_values)

    cdef LabelRequirement requirement_of(self, bint complement, mask, gte, lte, min_values):
        parts = (complement, mask, gte, lte, min_values)
        known = self.requirements.get(parts)
        if known is None:
            known = self.requirements[parts] = LabelRequirement(self, *parts)
        return known

    def one_of(self, *values):
        """Return the requirement that a label has one of some values."""
        return self.requirement_of(False, self.mask(values), None, None, None)

    cdef LabelRequirement open(self):
        if self._exists is None:
            self._exists = self.requirement_of(True, 0, None, None, None)
        return self._exists

    @property
    def exists(self):
        """The requirement that all values meet."""
        return self.open()


cdef larger(a, b):
    """The larger of two numbers, either of which may be missing."""
    return b if a is None or (b is not None and b > a) else a


cdef smaller(a, b):
    return b if a is None or (b is not None and b < a) else a


cdef class LabelRequirement:
    """What a key may be: `mask` has the values that it allows, or with `complement` those it excludes."""

    def __cinit__(self, Key key not None, bint complement, mask, gte, lte, min_values):
        self.key, self.complement, self.mask = key, complement, mask
        self.gte, self.lte, self.min_values = gte, lte, min_values
        self._met = {}

    @property
    def operator(self):
        """In, NotIn, Exists (bounds included) or DoesNotExist."""
        if self.complement:
            return "NotIn" if self.mask else "Exists"
        return "In" if self.mask else "DoesNotExist"

    cdef bint excludes(self) noexcept:
        """Whether a node without the label meets it, too."""
        return self.complement == bool(self.mask)

    @property
    def is_single(self):
        """Whether exactly one value is left."""
        return self.single()

    cdef bint single(self) except -1:
        return not self.complement and self.mask and not self.mask & (self.mask - 1)

    cpdef select(self, mask):
        """Return those values of a mask that are allowed."""
        kept = mask & ~self.mask if self.complement else mask & self.mask
        return self.key.within(kept, self.gte, self.lte)

    def allows(self, str value):
        """Whether a value is allowed."""
        return bool(self.select(self.key.bit(value)))

    cpdef LabelRequirement meet(self, LabelRequirement other):
        """Return what meets both."""
        met = self._met.get(other)
        if met is None:
            met = self._met[other] = self._meet(other)
        return met

    def _meet(self, LabelRequirement other not None):
        cdef bint complement = self.complement and other.complement
        gte, lte = larger(self.gte, other.gte), smaller(self.lte, other.lte)
        least = larger(self.min_values, other.min_values)
        if gte is not None and lte is not None and gte > lte:
            return self.key.requirement_of(False, 0, None, None, least)
        if complement:
            mask = self.mask | other.mask
        elif self.complement:
            mask = other.mask & ~self.mask
        else:
            mask = self.mask & ~other.mask if other.complement else self.mask & other.mask
        mask = self.key.within(mask, gte, lte)
        if not complement:
            gte = lte = None
        return self.key.requirement_of(complement, mask, gte, lte, least)

    cpdef bint intersects(self, LabelRequirement other) except -1:
        """Whether some value meets both."""
        gte, lte = larger(self.gte, other.gte), smaller(self.lte, other.lte)
        if gte is not None and lte is not None and gte > lte:
            return False
        cdef LabelRequirement met = self.meet(other)
        return met.complement or bool(met.mask)

    def with_min_values(self, least):
        """Return the requirement with another minValues."""
        return self.key.requirement_of(self.complement, self.mask, self.gte, self.lte, least)

    def any_value(self):
        """Return a value that is allowed: the first by name; of a complement the smallest number; "" for
        none."""
        if not self.complement:
            return self.key.names(self.mask)[0] if self.mask else ""
        return str(self.gte if self.gte is not None else 0)

    def as_written(self):
        """Return operator and values, as a NodeClaim has them; two for two bounds."""
        bounds = [("Gte", self.gte), ("Lte", self.lte)]
        written = [(operator, [str(bound)]) for operator, bound in bounds if bound is not None]
        return written or [(self.operator, self.key.names(self.mask))]

    def __str__(self):
        """As Karpenter's messages show it."""
        if self._text is None:
            text = f"{self.key.name} {self.operator}"
            if self.mask:
                names = self.key.names(self.mask)
                if len(names) > MOST_SHOWN:
                    names[MOST_SHOWN:] = [f"and {len(names) - MOST_SHOWN} others"]
                text += f" [{' '.join(names)}]"
            text += "" if self.gte is None else f" >={self.gte}"
            text += "" if self.lte is None else f" <={self.lte}"
            self._text = text + ("" if self.min_values is None else f" minValues {self.min_values}")
        return self._text


# ---- requirements on several labels, and whether nodes or claims with them could meet others ---------------


cdef class RequirementSet:
    """Requirements by label."""

    def __cinit__(self, Vocabulary vocabulary not None, dict by_key not None, bint has_min_values):
        self.vocabulary, self.by_key, self.has_min_values = vocabulary, by_key, has_min_values
        self._compatible, self._intersects, self._met = {}, {}, {}

    cpdef RequirementSet meet(self, RequirementSet other):
        """Return what meets both."""
        met = self._met.get(other)
        if met is None:
            parts = [*self.by_key.values(), *other.by_key.values()]
            met = self._met[other] = self.vocabulary.set_of(parts)
        return met

    cpdef RequirementSet narrowed(self, LabelRequirement requirement):
        """Return what meets one more requirement."""
        met = self._met.get(requirement)
        if met is None:
            met = self._met[requirement] = self.vocabulary.set_of([*self.by_key.values(), requirement])
        return met

    def having(self, LabelRequirement requirement not None):
        """Return these with one requirement in place of that on its label."""
        return self.vocabulary.interned(self.by_key | {requirement.key.name: requirement})

    cpdef RequirementSet without(self, str name):
        """Return these without a label."""
        if name not in self.by_key:
            return self
        return self.vocabulary.interned({key: each for key, each in self.by_key.items() if key != name})

    cpdef LabelRequirement get(self, str name):
        """Return the requirement on a label; Exists if there is none."""
        requirement = self.by_key.get(name)
        return self.vocabulary.key(name).open() if requirement is None else requirement

    def intersects(self, RequirementSet other not None):
        """Whether all labels that both name have values that meet both."""
        intersects = self._intersects.get(other)
        if intersects is None:
            intersects = self._intersects[other] = not self._clashes(other)
        return intersects

    def _clashes(self, RequirementSet other not None):
        cdef LabelRequirement ours, theirs
        clashes = []
        for name in sorted(self.by_key.keys() & other.by_key.keys()):
            ours, theirs = self.by_key[name], other.by_key[name]
            if not ours.intersects(theirs) and not (ours.excludes() and theirs.excludes()):
                clashes.append(f"key {name}, {theirs} not in {ours}")
        return clashes

    cpdef str refusal(self, RequirementSet other, bint undefined):
        """Return why nothing with these requirements can meet others; "" if it could.

        Parameters
        ----------
        undefined : bool
            Whether well known labels that these requirements do not name can still become anything.
        """
        question = (other, undefined)
        refusal = self._compatible.get(question)
        if refusal is None:
            refusal = self._compatible[question] = self._refusal(other, undefined)
        return refusal

    def _refusal(self, RequirementSet other not None, bint undefined):
        known = self.vocabulary.well_known if undefined else ()
        for name in sorted(other.by_key.keys() - self.by_key.keys()):
            if name not in known and not (<LabelRequirement?>other.by_key[name]).excludes():
                return f'label "{name}" does not have known values{self._hint(name, known)}'
        return "; ".join(self._clashes(other))

    def _hint(self, str name not None, known):
        """The label that was probably meant."""
        before, slash, after = name.partition("/")
        suffix = after if slash else before
        for label in (*sorted(known), *sorted({*self.by_key, HOSTNAME})):
            if name in label or label.endswith(suffix):
                return f' (typo of "{label}"?)'
        return ""

    def __str__(self):
        """As Karpenter's messages show them: without the name of the host."""
        return ", ".join(sorted([str(each) for name, each in self.by_key.items() if name != HOSTNAME]))


cdef class Vocabulary:
    """All labels, values and sets of requirements of some passes.

    Parameters
    ----------
    known_labels : KnownLabels
        What Karpenter knows of labels, by itself and by its provider.
    """

    def __cinit__(self, known_labels not None):
        self.known_labels, self.well_known = known_labels, known_labels.known
        self._keys, self._sets, self._of_labels = {}, {}, {}
        self.empty = self.interned({})

    cpdef Key key(self, str name):
        """Return a label, under the name as which it is read."""
        name = self.known_labels.key(name)
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = Key(name)
        return key

    def requirement(self, str name not None, str operator not None, values=(), min_values=None):
        """Return a requirement as written in an object."""
        cdef Key key = self.key(name)
        read_as = self.known_labels.normalized_values.get(key.name, {})
        values = tuple([read_as.get(value, value) for value in values])
        if operator in ("In", "NotIn"):
            return key.requirement_of(operator == "NotIn", key.mask(values), None, None, min_values)
        if operator == "DoesNotExist":
            return key.requirement_of(False, 0, None, None, min_values)
        if operator in ("Gt", "Gte"):
            number = bound(values[0] if values else "")
            if operator == "Gt" and number == LAST:
                return key.requirement_of(False, 0, None, None, None)
            return key.requirement_of(True, 0, number + (operator == "Gt"), None, min_values)
        if operator in ("Lt", "Lte"):
            number = bound(values[0] if values else "")
            return key.requirement_of(True, 0, None, number - (operator == "Lt"), min_values)
        return key.requirement_of(True, 0, None, None, min_values)

    def of_labels(self, labels):
        """Return the requirements that labels make, each to have its value."""
        key = frozenset(labels.items())
        known = self._of_labels.get(key)
        if known is None:
            terms = [self.requirement(name, "In", (value,)) for name, value in labels.items()]
            known = self._of_labels[key] = self.set_of(terms)
        return known

    def of_terms(self, terms):
        """Return the requirements of terms, which have a key, an operator and values."""
        return self.set_of([self.requirement(term.key, term.operator, term.values) for term in terms])

    cpdef RequirementSet set_of(self, requirements):
        """Return requirements together; several on one label are met."""
        cdef dict by_key = {}
        cdef LabelRequirement requirement
        for requirement in requirements:
            before = by_key.get(requirement.key.name)
            by_key[requirement.key.name] = requirement if before is None else requirement.meet(before)
        return self.interned(by_key)

    cdef RequirementSet interned(self, dict by_key):
        whole = frozenset(by_key.values())
        known = self._sets.get(whole)
        if known is None:
            least = any([(<LabelRequirement?>each).min_values is not None for each in by_key.values()])
            known = self._sets[whole] = RequirementSet(self, by_key, least)
        return known


cdef bound(str text):
    """The bound that Karpenter reads from a text: 0 from no number, the last number from a larger one."""
    return max(-LAST - 1, min(LAST, int(text))) if text.isascii() and INTEGER.fullmatch(text) else 0
