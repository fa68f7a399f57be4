"""Kubernetes quantities: parsing, rounding, arithmetic, formatting.

The rules are those of k8s.io/apimachinery v0.36, pkg/api/resource. Upstream stores an amount either as an
int64 with a decimal scale (here called fast) or as a big decimal. The two representations differ in rounding
negative amounts and in overflow, so a quantity here records which one upstream would use.
"""

import re

cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from libc.stdint cimport int32_t

cdef extern from *:
    bint multiply_overflows "__builtin_mul_overflow"(int64_t, int64_t, int64_t*) noexcept nogil

cdef enum Format:
    DECIMAL_SI
    DECIMAL_EXPONENT
    BINARY_SI

cdef object INT64_MAX = 2**63 - 1
cdef int NANO = -9
cdef object NANOS = 10**9
# Below CPython's limit on int conversion (4300 digits); also bounds the memory that an exponent can ask for.
cdef int MAX_DIGITS = 4000
cdef int MEMO_LIMIT = 1 << 16
cdef int MOST_DIGITS = 18  # of a power of ten in 64 bits

cdef str FORMAT_WRONG = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
cdef str SUFFIX_WRONG = "unable to parse quantity's suffix"
cdef str NUMERIC_WRONG = "unable to parse numeric part of quantity"

cdef dict DECIMAL_SUFFIXES = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}
cdef dict BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
cdef dict SUFFIX_OF_EXPONENT = {exponent: suffix for suffix, exponent in DECIMAL_SUFFIXES.items()}
cdef list BINARY_SUFFIX_OF_POWER = ["", *BINARY_SUFFIXES]

# Sign, leading zeros, whole part, fraction, suffix. Possessive quantifiers: no text causes backtracking.
cdef object SYNTAX = re.compile(r"([+-]?)(0*+)([0-9]*+)(\.[0-9]*+)?+([eEinumkKMGTP]*+[+-]?[0-9]*+)")
cdef object INTEGER = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]*+)")

cdef dict quantities = {}  # by their text or number


cdef object parse_int64(str text):
    """Return the integer that Go's strconv.ParseInt(text, 10, 64) reads; None where that fails."""
    if text and text[0].isalpha():
        return None  # as most texts
    match = INTEGER.fullmatch(text)
    if match is None:
        return None
    sign, digits = match.groups()
    if len(digits) > 19:
        return None
    number = int(sign + (digits or "0"))
    return number if fits_int64(number) else None


cdef object ten_to(object exponent):
    """Return 10**exponent."""
    return 10**exponent


cdef bint fits_int64(object number) except -1:
    """Whether an integer lies in the int64 range."""
    return -INT64_MAX - 1 <= number <= INT64_MAX


cpdef object wrap_int64(object number):
    """Return an integer modulo 2**64, in the int64 range, as Go's int64 wraps.

    Parameters
    ----------
    number : int

    Returns
    -------
    int
    """
    return ((number + INT64_MAX + 1) & (2 * INT64_MAX + 1)) - INT64_MAX - 1


cdef tuple read_suffix(str suffix):
    """Return (exponent, format) of a suffix; the base of the exponent is 2 for BINARY_SI, else 10."""
    if suffix in DECIMAL_SUFFIXES:
        return DECIMAL_SUFFIXES[suffix], DECIMAL_SI
    if suffix in BINARY_SUFFIXES:
        return BINARY_SUFFIXES[suffix], BINARY_SI
    exponent = parse_int64(suffix[1:]) if suffix[0] in "eE" else None
    if exponent is None:
        raise ValueError(SUFFIX_WRONG)
    return <int32_t><int64_t>exponent, DECIMAL_EXPONENT


cdef int read(Quantity q, str text) except -1:
    """Set a quantity to what a text says (ParseQuantity)."""
    match = SYNTAX.fullmatch(text)
    if match is None or not text:
        raise ValueError(FORMAT_WRONG)
    sign, zeros, whole, fraction, suffix = match.groups()
    fraction = fraction[1:] if fraction else ""
    exponent, q._format = read_suffix(suffix)
    cdef str digits = (whole or "0") + fraction
    if len(digits) + abs(exponent) > MAX_DIGITS:
        raise ValueError(NUMERIC_WRONG)
    unscaled = int(digits)
    cdef int precision = 18 - len(digits)
    q._scale = -len(fraction)
    if q._format == BINARY_SI:
        precision = -1 if fraction else 14 - len(digits) - exponent * 3 // 10
        unscaled <<= exponent
    else:
        q._scale += exponent
    q._fast = precision >= 0 and q._scale >= NANO
    if q._fast:
        if is_kept_as_read(q._format, q._scale, digits):
            q._text = text
    elif not (zeros or whole or fraction):
        raise ValueError(NUMERIC_WRONG)
    else:
        unscaled = round_and_cap(q, unscaled)
    q._unscaled = -unscaled if sign == "-" else unscaled


cdef bint is_kept_as_read(int format, int scale, str digits) except -1:
    """Whether upstream takes the text of a fast amount for canonical and shows it unchanged, as "+1"."""
    if format == BINARY_SI:
        return int(digits) % 8 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


cdef object round_and_cap(Quantity q, object unscaled):
    """Return a big decimal rounded up to nano, capped at 2**63-1 if binary; set scale and format of `q`."""
    if not unscaled:
        q._scale = 0
        return unscaled
    if q._scale < NANO:
        unscaled = -(-unscaled // ten_to(NANO - q._scale))
    else:
        unscaled *= ten_to(q._scale - NANO)
    q._scale = NANO
    if q._format == BINARY_SI:
        if unscaled > INT64_MAX * NANOS:
            q._scale = 0
            return INT64_MAX
        if unscaled < NANOS:
            q._format = DECIMAL_SI
    return unscaled


cdef str text_of(object raw):
    """Return the text of a JSON string or number."""
    if isinstance(raw, str):
        return str(raw)
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return repr(raw)
    raise ValueError(FORMAT_WRONG)


@cython.total_ordering
@cython.final
@cython.no_gc
cdef class Quantity:
    """A fixed-point number with a unit suffix, as Kubernetes reads, rounds and shows it.

    Immutable; ordered and hashed by value, whatever the suffix.

    Parameters
    ----------
    raw : str, int or float
        The quantity; a number is read through its JSON text.

    Raises
    ------
    ValueError
        With the text of upstream's ParseQuantity. Also, unlike upstream, for an amount whose digits and
        decimal exponent together exceed 4,000 places.

    Notes
    -----
    k8s.io/apimachinery v0.36, pkg/api/resource. Amounts are rounded away from zero to multiples of 10**-9,
    and binary amounts (Ki ... Ei) are capped at 2**63-1.
    """

    def __init__(self, raw: str | int | float) -> None:
        read(self, text_of(raw))

    cpdef object value(self):
        """Return the amount rounded up to an integer, as Quantity.Value.

        Returns
        -------
        int
            In the int64 range. As upstream, a decimal amount beyond that range wraps or gives 0; to check a
            magnitude, compare quantities, not values.
        """
        return self.scaled(0)

    cpdef object milli_value(self):
        """Return a thousand times the amount, rounded up, as Quantity.MilliValue.

        Returns
        -------
        int
            In the int64 range; amounts beyond that range as for `value`.
        """
        return self.scaled(-3)

    cpdef object amount(self, int scale, bint saturates):
        """Return the amount in units of 10**scale, rounded up.

        Parameters
        ----------
        scale : int
            0 or -3.
        saturates : bool
            Whether an amount beyond 64 bits is the largest or smallest number, and negative ones are rounded
            away from zero, as since v0.38; otherwise as `value` and `milli_value`.

        Returns
        -------
        int
            In the int64 range.

        Raises
        ------
        ValueError
            Another scale.
        """
        if scale not in (0, -3):
            raise ValueError(f"scale must be 0 or -3, not {scale}")
        if not saturates:
            return self.scaled(scale)
        nanos = self.nanos()
        magnitude = -(-abs(nanos) // ten_to(scale - NANO))
        return min(magnitude, INT64_MAX) if nanos > 0 else max(-magnitude, -INT64_MAX - 1)

    cpdef int sign(self) except -2:
        """Return the sign of the amount.

        Returns
        -------
        int
            -1, 0 or 1.
        """
        return (self._unscaled > 0) - (self._unscaled < 0)

    cdef object scaled(self, int scale):
        """Return the amount in units of 10**scale, rounded up, as Quantity.ScaledValue."""
        cdef int64_t number64 = 0
        if self._fast and _scale_int64(&number64, self._unscaled, self._scale, scale):
            return number64
        if scale <= self._scale:
            number = self._unscaled * ten_to(self._scale - scale)
            # For these powers of ten upstream multiplies once and wraps; for others it detects overflow.
            if self._fast and not fits_int64(number) and self._scale - scale not in (1, 2, 3, 6, 9):
                return 0
            # Powers beyond 64 bits, which upstream takes from a float, are the lowest number there.
            if not self._fast and self._scale - scale > MOST_DIGITS:
                return wrap_int64(-self._unscaled << 63)
            return wrap_int64(number)
        divisor = ten_to(scale - self._scale)
        if self._unscaled >= INT64_MAX:
            return wrap_int64(-(-self._unscaled // divisor))
        # Upstream truncates and then adds one, even to a negative amount.
        number = wrap_int64(self._unscaled)
        quotient = abs(number) // divisor
        return (-quotient if number < 0 else quotient) + (number % divisor != 0)

    cpdef object nanos(self):
        """Return the amount in units of 10**-9."""
        return self._unscaled * ten_to(self._scale - NANO)

    def __add__(self, other: object) -> Quantity:
        return add(self, <Quantity>other, 1) if isinstance(other, Quantity) else NotImplemented

    def __sub__(self, other: object) -> Quantity:
        return add(self, <Quantity>other, -1) if isinstance(other, Quantity) else NotImplemented

    def __mul__(self, other: object) -> Quantity:
        return multiply(self, <Quantity>other) if isinstance(other, Quantity) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self.nanos() == (<Quantity>other).nanos() if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self.nanos() < (<Quantity>other).nanos() if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.nanos())

    def __str__(self) -> str:
        return self._text or canonical(self)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __reduce__(self) -> tuple[type[Quantity], tuple[str]]:
        return Quantity, (str(self),)


cdef bint _scale_int64(int64_t* out, object unscaled, int before, int scale) except -1:
    """Convert an amount from units of 10**before to units of 10**scale, away from zero, in 64 bits.

    Returns False where the conversion needs more bits; `out` is then undefined.
    """
    cdef int64_t power = 1, amount = unscaled
    cdef int digits = scale - before if scale > before else before - scale
    if digits > MOST_DIGITS:
        return False
    while digits:
        power *= 10
        digits -= 1
    if scale > before:
        out[0] = amount // power
        if amount % power:
            out[0] += 1 if amount > 0 else -1
        return True
    return not multiply_overflows(amount, power, out)


cdef Quantity multiply(Quantity a, Quantity b):
    """Return a * b in the format of a, rounded up to nano (upstream multiplies big decimals)."""
    cdef Quantity result = Quantity.__new__(Quantity)
    result._format = a._format
    result._scale, result._unscaled = a._scale + b._scale, a._unscaled * b._unscaled
    if result._scale < NANO:
        result._unscaled = -(-result._unscaled // ten_to(NANO - result._scale))
        result._scale = NANO
    return result


cdef Quantity add(Quantity a, Quantity b, int sign):
    """Return a + sign * b. A sum has the format of its first operand that is not zero."""
    cdef Quantity result = Quantity.__new__(Quantity)
    result._format = a._format if a._unscaled else b._format
    result._fast = a._fast and b._fast
    if result._fast and not b._unscaled:
        result._scale, result._unscaled = a._scale, a._unscaled
    elif result._fast and not a._unscaled:
        result._scale, result._unscaled = b._scale, sign * b._unscaled
    elif result._fast and a._scale == b._scale:
        result._scale, result._unscaled = a._scale, a._unscaled + sign * b._unscaled
        result._fast = fits_int64(result._unscaled)
    else:
        result._scale = min(a._scale, b._scale)
        left = a._unscaled * ten_to(a._scale - result._scale)
        right = sign * b._unscaled * ten_to(b._scale - result._scale)
        result._unscaled = left + right
        result._fast = (
            result._fast and fits_int64(left) and fits_int64(right) and fits_int64(result._unscaled)
        )
    return result


cdef Quantity compared(Quantity q, Quantity other):
    """Return a quantity as a comparison leaves it: upstream makes a big decimal of a number in 64 bits to
    compare it with a big decimal."""
    if not q._fast or other._fast:
        return q
    cdef Quantity result = Quantity.__new__(Quantity)
    result._unscaled, result._scale, result._format = q._unscaled, q._scale, q._format
    result._text = q._text
    return result


cdef str canonical(Quantity q):
    """Return the canonical text: the shortest one without a fraction, in the format of the quantity.

    Binary amounts below 1024 or with a fraction are shown as decimals. A decimal beyond the suffix E is shown
    with an exponent; v0.36 omits the exponent, which later releases of upstream correct.
    """
    if not q._unscaled:
        return "0"
    nanos = q.nanos()
    if q._format == BINARY_SI and abs(nanos) >= 1024 * NANOS and nanos % NANOS == 0:
        return binary(nanos // NANOS)
    amount, exponent = q._unscaled, q._scale
    while amount % 10 == 0:
        amount //= 10
        exponent += 1
    while exponent % 3:
        amount *= 10
        exponent -= 1
    if q._format != DECIMAL_EXPONENT and exponent in SUFFIX_OF_EXPONENT:
        return f"{amount}{SUFFIX_OF_EXPONENT[exponent]}"
    return f"{amount}e{exponent}" if exponent else str(amount)


cdef str binary(object amount):
    """Return the text of an integer with the largest binary suffix that leaves no fraction."""
    cdef int power = 0
    while power < 6 and amount % 1024 == 0:
        amount //= 1024
        power += 1
    return f"{amount}{BINARY_SUFFIX_OF_POWER[power]}"


cdef inline Quantity memoised(object raw):
    """Return ``Quantity(raw)`` through a memo."""
    # Keys are str and int only: True == 1 and 1.0 == 1 would find the entry of 1.
    if type(raw) is not str and type(raw) is not int:
        raw = text_of(raw)
    cdef PyObject* hit = PyDict_GetItemWithError(quantities, raw)
    if hit != NULL:
        return <Quantity>hit
    quantity = Quantity(raw)
    if len(quantities) >= MEMO_LIMIT:
        quantities.clear()
    quantities[raw] = quantity
    return quantity


cpdef Quantity parse(object raw):
    """Return ``Quantity(raw)``, memoised.

    Parameters
    ----------
    raw : str, int or float
        A quantity as written in a manifest.

    Returns
    -------
    Quantity

    Raises
    ------
    ValueError
        If `raw` is not a quantity.
    """
    return memoised(raw)


cpdef int64_t parse_value(object raw) except? -1:
    """Return ``Quantity(raw).value()``, memoised.

    Parameters
    ----------
    raw : str, int or float
        A quantity as written in a manifest.

    Returns
    -------
    int
        The amount rounded up, an int64.

    Raises
    ------
    ValueError
        If `raw` is not a quantity.
    """
    return memoised(raw).value()


cpdef int64_t parse_milli(object raw) except? -1:
    """Return ``Quantity(raw).milli_value()``, memoised.

    Parameters
    ----------
    raw : str, int or float
        A quantity as written in a manifest.

    Returns
    -------
    int
        A thousand times the amount, rounded up, an int64.

    Raises
    ------
    ValueError
        If `raw` is not a quantity.
    """
    return memoised(raw).milli_value()
