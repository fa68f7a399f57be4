cpdef list bits(mask)


cdef class Key:
    cdef readonly str name
    cdef readonly list values
    cdef list integers
    cdef dict places, requirements
    cdef LabelRequirement _exists

    cpdef bit(self, str value)
    cdef within(self, mask, gte, lte)
    cdef LabelRequirement requirement_of(self, bint complement, mask, gte, lte, min_values)
    cdef LabelRequirement open(self)


cdef class LabelRequirement:
    cdef readonly Key key
    cdef readonly bint complement
    cdef readonly object mask, gte, lte, min_values
    cdef dict _met
    cdef str _text

    cpdef select(self, mask)
    cpdef LabelRequirement meet(self, LabelRequirement other)
    cpdef bint intersects(self, LabelRequirement other) except -1
    cdef bint excludes(self) noexcept
    cdef bint single(self) except -1


cdef class RequirementSet:
    cdef readonly Vocabulary vocabulary
    cdef readonly dict by_key
    cdef readonly bint has_min_values
    cdef dict _compatible, _intersects, _met

    cpdef RequirementSet meet(self, RequirementSet other)
    cpdef RequirementSet narrowed(self, LabelRequirement requirement)
    cpdef RequirementSet without(self, str name)
    cpdef str refusal(self, RequirementSet other, bint undefined)
    cpdef LabelRequirement get(self, str name)


cdef class Vocabulary:
    cdef readonly object known_labels, well_known
    cdef readonly RequirementSet empty
    cdef dict _keys, _sets, _of_labels

    cpdef Key key(self, str name)
    cpdef RequirementSet set_of(self, requirements)
    cdef RequirementSet interned(self, dict by_key)
