"""DeviceSearch: finds devices for claims by backtracking, in the order of kube-scheduler and with its
oddities (k8s.io/dynamic-resource-allocation, structured/internal/incubating).
"""

from moorage.errors import MoorageError

from libc.string cimport memchr, memset

from moorage._core.base cimport allocate
from moorage._core.devices.device_view cimport (
    ABSENT, COUNTING, HERE, LISTED, SEVERAL, UNREADABLE, WAITING, Consumption, amount_of, nanos,
)

cdef enum:
    MAX_RESULTS = 32
    NONE = -3

cdef enum Answer:
    UNKNOWN
    YES
    NO

cdef enum Amounts:  # what a request takes of the capacity of a device
    UNREAD
    ALL      # the whole; there is neither a request nor a policy
    SOME     # `amounts`
    NEVER    # a requested capacity is missing, or a policy forbids the amount

cdef enum Outcome:
    FAILED
    FOUND
    EXCEEDED  # a claim would have more devices than a result can have


class SearchTimeoutError(MoorageError):
    """The search on a node has taken too many steps."""


cdef class Wanted:
    """Claims that are to be allocated together.

    Parameters
    ----------
    claims : sequence of ClaimRequests
    rules : object
        Answers about requests and devices, and errors; see `AllocationRules`.
    """

    def __cinit__(self, claims, rules):
        cdef int32_t at, name
        cdef Alternative* one
        self.claims, self.rules, self.memory = list(claims), rules, []
        self.alternatives = [asked for claim in claims for request in claim.alternatives for asked in request]
        self.n_claims, self.n_alternatives = <int32_t>len(self.claims), <int32_t>len(self.alternatives)
        self.n_requests = <int32_t>sum([len(claim.alternatives) for claim in claims])
        self.requests = <int32_t*>allocate(self.memory, sizeof(int32_t), self.n_claims + 1)
        self.choices = <int32_t*>allocate(self.memory, sizeof(int32_t), self.n_requests + 1)
        self.each = <Alternative*>allocate(self.memory, sizeof(Alternative), self.n_alternatives + 1)
        self.errors, self.constraint_errors, self.constraints = [], [], []
        self.matching, self.amounting = [{} for _ in self.alternatives], [{} for _ in self.alternatives]
        self.constrained = <int32_t*>allocate(self.memory, sizeof(int32_t), self.n_claims + 1)
        _fill_requests(self)
        for at in range(self.n_claims):
            self.constrained[at] = <int32_t>len(self.constraints)
            constraints, error = rules.constraints(self.claims[at])
            self.constraints += [(at, *constraint) for constraint in constraints]
            self.constraint_errors.append(error)
        self.n_constraints = self.constrained[self.n_claims] = <int32_t>len(self.constraints)
        self.applies = <uint8_t*>allocate(self.memory, 1, self.n_constraints * self.n_alternatives + 1)
        for at in range(self.n_constraints):
            for name in range(self.n_alternatives):
                one, asked = &self.each[name], self.alternatives[name]
                requests = self.constraints[at][3]
                self.applies[at * self.n_alternatives + name] = one.claim == self.constraints[at][0] and (
                    not requests or (asked.parent or asked.name) in requests or asked.full_name in requests
                )


cdef int _fill_requests(Wanted wanted) except -1:
    cdef int32_t at = 0, number = 0, claim, choice
    cdef Alternative* one
    for claim in range(wanted.n_claims):
        wanted.requests[claim] = number
        names = {}
        for place, alternatives in enumerate(wanted.claims[claim].alternatives):
            wanted.choices[number] = at
            for choice, asked in enumerate(alternatives):
                one = &wanted.each[at]
                one.claim, one.request, one.choice = claim, number, choice
                one.base = names.setdefault(asked.parent or asked.name, len(names))
                one.wants_all, one.has_admin_access = asked.wants_all, asked.admin_access
                one.is_choice = bool(asked.parent)
                wanted.has_choices |= one.is_choice
                error, one.count = wanted.rules.check(wanted.claims[claim], place, choice)
                wanted.errors.append(error)
                at += 1
            number += 1
    wanted.requests[wanted.n_claims], wanted.choices[wanted.n_requests] = number, at


cdef class DeviceSearch:
    """The search for devices of a view for some claims. It may be repeated, as the state of the view changes.

    Parameters
    ----------
    wanted : Wanted
    view : DeviceView
    features : Features
    most_steps : int
        The number of steps that a search may take; 0 for any number.
    cycle : dict, optional
        What the cycle has found to be available of counters, by their owner (`Features.owner_of_counters`).
        For views that are not free of order.
    """

    def __cinit__(self, Wanted wanted not None, DeviceView view not None, features, most_steps=0, cycle=None):
        cdef Py_ssize_t cells = wanted.n_alternatives * view.n + 1
        self.wanted, self.view, self.memory = wanted, view, []
        self.counts_shares, self.allows_counters = features.consumable_capacity, features.partitionable
        self.checks_taints, self.allows_waiting = features.taints, features.binding_conditions
        self.includes_full = features.release.all_includes_full_devices
        self.all_goes_on_as_first = features.release.all_goes_on_as_first
        self.limits_requests = features.release.errors_name_devices
        self.is_distinct_from_all = features.release.distinct_from_all
        self.most_steps, self.cycle = most_steps, cycle
        self.matches = <uint8_t*>allocate(self.memory, 1, cells)
        self.tolerates = <uint8_t*>allocate(self.memory, 1, cells)
        self.amounts_of = <uint8_t*>allocate(self.memory, 1, cells)
        self.amounts = NULL
        self.is_settled = <bint*>allocate(self.memory, sizeof(bint), wanted.n_alternatives + 1)
        self.every = <int32_t**>allocate(self.memory, sizeof(void*), wanted.n_alternatives + 1)
        self.counts = <int64_t*>allocate(self.memory, sizeof(int64_t), wanted.n_alternatives + 1)
        self.constraints = <Constraint*>allocate(self.memory, sizeof(Constraint), wanted.n_constraints + 1)
        self.last = <int32_t*>allocate(
            self.memory, sizeof(int32_t), wanted.n_constraints * wanted.n_alternatives + 1)
        self.seen = <int32_t*>allocate(self.memory, sizeof(int32_t), wanted.n_constraints * MAX_RESULTS + 1)
        self.values = <int32_t**>allocate(self.memory, sizeof(void*), wanted.n_constraints + 1)
        self.found = <int32_t*>allocate(self.memory, sizeof(int32_t), wanted.n_claims * MAX_RESULTS + 1)
        self.found_for = <int32_t*>allocate(self.memory, sizeof(int32_t), wanted.n_claims * MAX_RESULTS + 1)
        self.n_found = <int32_t*>allocate(self.memory, sizeof(int32_t), wanted.n_claims + 1)
        self.is_counted = <uint8_t*>allocate(self.memory, 1, wanted.n_claims * MAX_RESULTS + 1)
        self.had_share = <uint8_t*>allocate(self.memory, 1, wanted.n_claims * MAX_RESULTS + 1)
        self.chosen = <int32_t*>allocate(self.memory, sizeof(int32_t), wanted.n_requests + 1)
        self.taken_by = []
        for at in range(wanted.n_alternatives):
            self.has_admin_access |= wanted.each[<int32_t>at].has_admin_access
        for at in range(wanted.n_constraints):
            self.constraints[<int32_t>at].claim, kind, attribute = wanted.constraints[at][:3]
            self.constraints[<int32_t>at].is_distinct = kind == "distinct"
            self.values[<int32_t>at] = view.attribute_values(
                attribute, kind == "match" and features.release.attributes_are_typed)

    def settle(self):
        """Find out for all devices whether they match, as far as expressions have a result.

        A search then passes over devices that certainly cannot be taken.
        """
        cdef int32_t alternative, device
        for alternative in range(self.wanted.n_alternatives):
            self.is_settled[alternative] = True
            for device in range(self.view.n):
                try:
                    self._is_selectable(alternative, device)
                except Exception:
                    self.is_settled[alternative] = False
                    break

    cpdef find(self):
        """Find devices for all claims.

        Returns
        -------
        list of (list of int, list of (int, int, bool)) or None
            Of each claim: the alternative of each request, by its place among those of the request; and the
            devices as (index among all alternatives of all claims, device of the view, whether a share is
            taken). None if there is no solution.

        Raises
        ------
        AllocationError
            The claims cannot be allocated on any node.
        SearchTimeoutError
            The search has taken too many steps.
        """
        cdef int32_t at
        self.steps = 0
        self.view.refresh()
        memset(self.n_found, 0, self.wanted.n_claims * sizeof(int32_t))
        memset(self.chosen, 0, self.wanted.n_requests * sizeof(int32_t))
        for at in range(self.wanted.n_constraints):
            self.constraints[at].devices = 0
        for at in range(self.wanted.n_constraints * self.wanted.n_alternatives):
            self.last[at] = NONE
        self.taken_by.clear()
        try:
            self._prepare()
            return self._results() if self._claim(0) == FOUND else None
        finally:
            self.view.forget_search()

    cdef list _results(self):
        """What was found for each claim."""
        cdef Wanted wanted = self.wanted
        cdef int32_t claim, at
        cdef bint several
        cdef list out = [], chosen, devices
        for claim in range(wanted.n_claims):
            chosen, devices = [], []
            for at in range(wanted.requests[claim], wanted.requests[claim + 1]):
                chosen.append(self.chosen[at])
            for at in range(claim * MAX_RESULTS, claim * MAX_RESULTS + self.n_found[claim]):
                several = self.view.flags[self.found[at]] & SEVERAL
                devices.append((self.found_for[at], self.found[at], several))
            out.append((chosen, devices))
        return out

    # ---- checks before the search --------------------------------------------------------------------------

    cdef int _prepare(self) except -1:
        """Find out how many devices each request needs, and raise the error of one that cannot be."""
        cdef Wanted wanted = self.wanted
        cdef int32_t claim, request, at
        cdef int64_t least, fewest
        cdef bint is_first, all_match
        for claim in range(wanted.n_claims):
            least = 0
            for request in range(wanted.requests[claim], wanted.requests[claim + 1]):
                fewest = 0
                for at in range(wanted.choices[request], wanted.choices[request + 1]):
                    if wanted.errors[at] is not None:
                        raise wanted.errors[at].with_traceback(None)
                    all_match = wanted.each[at].wants_all
                    self.counts[at] = self._collect(at) if all_match else wanted.each[at].count
                    is_first = at == wanted.choices[request]
                    fewest = self.counts[at] if is_first else min(fewest, self.counts[at])
                if self.limits_requests and fewest > MAX_RESULTS - least:
                    raise wanted.rules.too_many_of_request(
                        wanted.claims[claim], request - wanted.requests[claim], fewest, least)
                least += fewest
            if least > MAX_RESULTS:
                raise wanted.rules.too_many(wanted.claims[claim], least)
            if wanted.constraint_errors[claim] is not None:
                raise wanted.constraint_errors[claim].with_traceback(None)

    cdef int64_t _collect(self, int32_t alternative) except -1:
        """Collect the devices of a request for all that match; returns their number."""
        cdef DeviceView view = self.view
        cdef int32_t at, device, n = 0
        if self.every[alternative] == NULL:
            self.every[alternative] = <int32_t*>allocate(self.memory, sizeof(int32_t), view.n + 1)
        for at in range(view.n_pools):
            pool = view.pools[at]
            if pool.is_incomplete or pool.is_invalid:
                raise self.wanted.rules.unusable_pool(
                    self.wanted.claims[self.wanted.each[alternative].claim],
                    self.wanted.alternatives[alternative], pool)
            for device in range(view.first[at], view.first[at + 1]):
                if self._is_selectable(alternative, device) \
                        and self._has_capacity(alternative, device, self.includes_full):
                    self.every[alternative][n] = device
                    n += 1
        return n

    # ---- the search ----------------------------------------------------------------------------------------

    cdef int _step(self) except -1:
        self.steps += 1
        if self.most_steps and self.steps > self.most_steps:
            raise SearchTimeoutError

    cdef int _claim(self, int32_t claim) except -1:
        """Allocate the claims from one on."""
        self._step()
        return FOUND if claim >= self.wanted.n_claims else self._request(claim, self.wanted.requests[claim])

    cdef int _request(self, int32_t claim, int32_t request) except -1:
        """Allocate the requests of a claim from one on, and all later claims."""
        cdef Wanted wanted = self.wanted
        cdef int32_t at
        cdef int outcome
        cdef bint exceeded = True
        self._step()
        if request >= wanted.requests[claim + 1]:
            # If a later claim has too many devices, this one may still succeed after another choice before.
            return self._claim(claim + 1) == FOUND
        at = wanted.choices[request]
        if not wanted.each[at].is_choice:
            return self._devices(at, 0, 0)
        for at in range(wanted.choices[request], wanted.choices[request + 1]):
            outcome = self._devices(at, 0, 0)
            if outcome == FOUND:
                self.chosen[request] = wanted.each[at].choice
                return FOUND
            exceeded &= outcome == EXCEEDED
        return EXCEEDED if exceeded else FAILED

    cdef int _devices(self, int32_t alternative, int64_t have, int32_t start) except -1:
        """Allocate the rest of the devices of a request, from a device on, and all that follows."""
        cdef const Alternative* asked = &self.wanted.each[alternative]
        cdef int32_t device
        cdef int outcome
        self._step()
        if asked.wants_all and not self.counts[alternative]:
            return FAILED
        if have >= self.counts[alternative]:
            return self._request(asked.claim, asked.request + 1)
        if self.counts[alternative] - have > MAX_RESULTS - self.n_found[asked.claim]:
            return EXCEEDED
        if asked.wants_all:
            device = self.every[alternative][have]
            if not self._take(alternative, device, True):
                return FAILED
            return self._go_on(alternative, have, device, 0)
        device = self._next(alternative, start)
        while device < self.view.n:
            if not self._is_in_use(alternative, device) and self._is_selectable(alternative, device) \
                    and self._has_capacity(alternative, device) and self._take(alternative, device, False):
                outcome = self._go_on(alternative, have, device, device + 1)
                if outcome != FAILED:
                    return outcome
            device = self._next(alternative, device + 1)
        return FAILED

    cdef int32_t _next(self, int32_t alternative, int32_t start) noexcept:
        """The next device to try; those that certainly fail without a trace are passed over."""
        cdef const char* begin = <const char*>self.view.open + start
        cdef const char* place
        if start >= self.view.n:
            return self.view.n
        if not self.is_settled[alternative] or self.wanted.each[alternative].has_admin_access:
            return start
        place = <const char*>memchr(begin, 1, self.view.n - start)
        return self.view.n if place == NULL else start + <int32_t>(place - begin)

    cdef int _go_on(self, int32_t alternative, int64_t have, int32_t device, int32_t start) except -1:
        """Search for the rest; give a device back if there is no solution with it."""
        cdef int32_t following = alternative
        cdef int outcome
        if self.all_goes_on_as_first and self.wanted.each[alternative].wants_all:
            following = self.wanted.choices[self.wanted.each[alternative].request]
        outcome = self._devices(following, have + 1, start)
        if outcome != FOUND:
            self._give_back(alternative, device)
        return outcome

    # ---- what a device is to a request ---------------------------------------------------------------------

    cdef bint _is_in_use(self, int32_t alternative, int32_t device) except -1:
        if self.wanted.each[alternative].has_admin_access:
            return (device, self.wanted.each[alternative].claim) in self.taken_by
        return self.view.is_in_use(device) or self.view.taken[device]

    cdef bint _is_selectable(self, int32_t alternative, int32_t device) except -1:
        cdef uint8_t* known = &self.matches[alternative * self.view.n + device]
        cdef bint matches
        if known[0] == UNKNOWN:
            matches = (self.allows_waiting or not self.view.flags[device] & WAITING) \
                and self._matches(alternative, self.view.device(device)) \
                and self.view.flags[device] & HERE != 0
            known[0] = YES if matches else NO
        return known[0] == YES

    cdef bint _matches(self, int32_t alternative, published) except -1:
        """Whether expressions select a device; asked once for devices of equal properties."""
        cdef dict known = self.wanted.matching[alternative]
        properties = published.properties
        found = known.get(properties)
        if found is None:
            claim = self.wanted.claims[self.wanted.each[alternative].claim]
            found = self.wanted.rules.matches(claim, self.wanted.alternatives[alternative], published)
            known[properties] = found
        return found

    cdef bint _is_tolerated(self, int32_t alternative, int32_t device) except -1:
        cdef uint8_t* known = &self.tolerates[alternative * self.view.n + device]
        if known[0] == UNKNOWN:
            asked = self.wanted.alternatives[alternative]
            published = self.view.device(device)
            tolerates = not published.device.taints or self.wanted.rules.tolerates(asked, published)
            known[0] = YES if tolerates else NO
        return known[0] == YES

    cdef int _amounts(self, int32_t alternative, int32_t device) except -1:
        """What a request takes of the capacity of a device, as `Amounts`."""
        cdef uint8_t* known = &self.amounts_of[alternative * self.view.n + device]
        cdef int32_t at, first = self.view.capacity[device]
        cdef mr_amount* out
        if known[0] == UNREAD:
            published, answers = self.view.device(device), <dict>self.wanted.amounting[alternative]
            properties = published.properties
            if properties not in answers:
                answers[properties] = self.wanted.rules.amounts(
                    self.wanted.claims[self.wanted.each[alternative].claim],
                    self.wanted.alternatives[alternative], published)
            found = answers[properties]
            known[0] = NEVER if found is None else ALL if not found else SOME
            if found:
                out = _room(self, alternative)
                for at, quantity in enumerate(found):
                    out[first + at] = amount_of(nanos(quantity))
        return known[0]

    cdef mr_amount _amount(self, int32_t alternative, int32_t device, int32_t capacity) noexcept:
        if self.amounts_of[alternative * self.view.n + device] == SOME:
            return self.amounts[alternative * <Py_ssize_t>len(self.view.capacities) + capacity]
        return self.view.whole[capacity]

    cdef bint _has_capacity(self, int32_t alternative, int32_t device, bint is_empty=False) except -1:
        """Whether a device has the capacity for a request; `is_empty`: if nobody had taken of it."""
        cdef DeviceView view = self.view
        cdef int32_t at
        cdef int known
        cdef mr_amount amount
        if not self.counts_shares:
            return True
        known = self._amounts(alternative, device)
        if known == NEVER:
            return False
        if known == ALL and not view.is_shared[device] and not view.has_share[device]:
            return True
        for at in range(view.capacity[device], view.capacity[device + 1]):
            amount = self._amount(alternative, device, at)
            if not is_empty:
                amount += view.in_use[at] + view.share[at]
            if amount > view.whole[at]:
                return False
        return True

    # ---- taking and giving back ----------------------------------------------------------------------------

    cdef bint _take(self, int32_t alternative, int32_t device, bint must) except -1:
        """Take a device for a request if nothing prevents that.

        What was taken of counters, constraints and the device is given back if something prevents it (since
        v1.36.3).
        """
        cdef DeviceView view = self.view
        cdef const Alternative* asked = &self.wanted.each[alternative]
        cdef bint several = view.flags[device] & SEVERAL != 0
        cdef bint is_counted = False
        cdef int32_t at
        if not (several and asked.has_admin_access) and self._is_in_use(alternative, device):
            return False
        if view.flags[device] & COUNTING:
            if not self.allows_counters:
                return False
            is_counted = not (several and (view.is_charged[device] or view.has_share[device]))
            if is_counted and not self._counters_suffice(device):
                return False
        if self.checks_taints and not self._is_tolerated(alternative, device):
            self._release_counters(device, is_counted)
            return False
        if not self._constraints_allow(alternative, device):
            self._release_counters(device, is_counted)
            if must:
                raise self.wanted.rules.constraint_error(
                    self.wanted.claims[asked.claim], self.wanted.alternatives[alternative],
                    view.device(device))
            return False
        view.touch(device)
        if not several:
            view.taken[device] += 1
            if self.has_admin_access:
                self.taken_by.append((device, asked.claim))
        if not self._has_capacity(alternative, device):
            self._release(alternative, device, is_counted)
            return False
        at = asked.claim * MAX_RESULTS + self.n_found[asked.claim]
        self.is_counted[at], self.had_share[at] = is_counted, view.has_share[device]
        self.found[at], self.found_for[at] = device, alternative
        self.n_found[asked.claim] += 1
        if several:
            self._amounts(alternative, device)
            view.has_share[device] = True
            for at in range(view.capacity[device], view.capacity[device + 1]):
                view.share[at] += self._amount(alternative, device, at)
        return True

    cdef int _release(self, int32_t alternative, int32_t device, bint is_counted) except -1:
        """Give back the constraints, the device and, if they were taken, the counters of a device."""
        cdef DeviceView view = self.view
        cdef int32_t claim = self.wanted.each[alternative].claim, at
        for at in range(self.wanted.constrained[claim], self.wanted.constrained[claim + 1]):
            self._remove(at, alternative)
        if not view.flags[device] & SEVERAL:
            view.taken[device] -= 1
            if self.has_admin_access:
                self.taken_by.remove((device, claim))
        self._release_counters(device, is_counted)

    cdef int _give_back(self, int32_t alternative, int32_t device) except -1:
        cdef DeviceView view = self.view
        cdef int32_t claim = self.wanted.each[alternative].claim, at
        cdef bint is_left = False
        self.n_found[claim] -= 1
        cdef int32_t last = claim * MAX_RESULTS + self.n_found[claim]
        self._release(alternative, device, self.is_counted[last])
        if not view.flags[device] & SEVERAL:
            return 0
        for at in range(view.capacity[device], view.capacity[device + 1]):
            view.share[at] -= self._amount(alternative, device, at)
            is_left |= view.share[at] != 0
        view.has_share[device] = is_left or self.had_share[last]

    cdef bint _counters_suffice(self, int32_t device) except -1:
        """Take the counters of a device if there are enough.

        As upstream, all pools with one owner of counters share what the first of them had available when it
        was asked first in the cycle.
        """
        cdef DeviceView view = self.view
        cdef int32_t pool = view.pool[device], at
        cdef const Consumption* one
        cdef bint lacking
        if not view.is_ready[view.name[pool]]:
            view.make_ready(pool, self.cycle)
        view.touch(device)
        lacking = view.is_short[view.name[pool]]
        for at in range(view.counters[device], view.counters[device + 1]):
            one = &view.consumptions[at]
            view.consumed[one.slot] += one.amount
            lacking |= view.is_limited[one.slot] and view.limit[one.slot] < view.consumed[one.slot]
        self._release_counters(device, lacking)
        return not lacking

    cdef void _release_counters(self, int32_t device, bint is_counted) noexcept:
        """Give back the counters of a device, if they were taken."""
        cdef int32_t at
        if not is_counted:
            return
        for at in range(self.view.counters[device], self.view.counters[device + 1]):
            self.view.consumed[self.view.consumptions[at].slot] -= self.view.consumptions[at].amount

    # ---- constraints ---------------------------------------------------------------------------------------

    cdef bint _constraints_allow(self, int32_t alternative, int32_t device) except -1:
        """Add a device to the constraints of its claim, to all or, if one forbids it, to none."""
        cdef int32_t claim = self.wanted.each[alternative].claim, at, other
        for at in range(self.wanted.constrained[claim], self.wanted.constrained[claim + 1]):
            if not self._add(at, alternative, device):
                for other in range(self.wanted.constrained[claim], at):
                    self._remove(other, alternative)
                return False
        return True

    cdef bint _add(self, int32_t number, int32_t alternative, int32_t device) except -1:
        """Add a device to a constraint if that allows it."""
        cdef Constraint* one = &self.constraints[number]
        cdef int32_t value = self.values[number][device], at
        cdef int32_t* last = self.last + number * self.wanted.n_alternatives
        if not self.wanted.applies[number * self.wanted.n_alternatives + alternative]:
            return True
        if value == ABSENT:
            return False
        if value == UNREADABLE:
            raise self.wanted.rules.unreadable_attribute(
                self.wanted.claims[one.claim], self.wanted.alternatives[alternative],
                self.view.device(device), self.wanted.constraints[number][2])
        if one.is_distinct and self.is_distinct_from_all:
            for at in range(number * MAX_RESULTS, number * MAX_RESULTS + one.devices):
                if value == LISTED or self.seen[at] == value:
                    return False
            self.seen[number * MAX_RESULTS + one.devices] = value
        elif one.is_distinct:
            # Until v1.36 only the last value of each request is remembered.
            for at in range(self.wanted.n_alternatives):
                if last[at] != NONE and one.devices and (value == LISTED or last[at] == value):
                    return False
            last[self.wanted.each[alternative].base] = value
        elif one.devices == 0:
            one.first = value
        elif value == LISTED or value != one.first:
            return False
        one.devices += 1
        return True

    cdef void _remove(self, int32_t number, int32_t alternative) noexcept:
        """Take the last device from a constraint, which is one of this request; its value is forgotten."""
        if self.wanted.applies[number * self.wanted.n_alternatives + alternative]:
            self.constraints[number].devices -= 1
            self.last[number * self.wanted.n_alternatives + self.wanted.each[alternative].base] = NONE


cdef mr_amount* _room(DeviceSearch search, int32_t alternative) except NULL:
    """The amounts of a request, for which memory is taken at the first use."""
    cdef Py_ssize_t capacities = len(search.view.capacities)
    if search.amounts == NULL:
        search.amounts = <mr_amount*>allocate(
            search.memory, sizeof(mr_amount), search.wanted.n_alternatives * capacities + 1)
    return search.amounts + alternative * capacities
