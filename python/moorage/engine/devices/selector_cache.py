"""The results of expressions for devices: each is evaluated once for devices of equal properties."""

from __future__ import annotations

from moorage.kube.cel.cel_errors import CompileError

from .allocation.device_pools import PublishedDevice
from .selector_error import SelectorError

_LIMIT = 1 << 20


class SelectorCache:
    """Results by expression and properties of a device.

    Parameters
    ----------
    list_attributes, multiple_allocations : bool, optional
        See `device_value`.
    includes : bool, optional
        See `compile_selector`.
    """

    def __init__(
        self, *, list_attributes: bool = False, multiple_allocations: bool = True, includes: bool = True
    ) -> None:
        self._list_attributes, self._multiple_allocations = list_attributes, multiple_allocations
        self._includes = includes
        self._results: dict[tuple[str, bytes], bool | SelectorError] = {}
        self._by_driver: dict[tuple[str, str], bool] = {}  # of expressions that read nothing else

    def matches(self, expression: str, device: PublishedDevice) -> bool:
        """Evaluate an expression for a device.

        Raises
        ------
        CompileError
            The expression cannot be compiled.
        SelectorError
            It has no result for the device.
        """
        key = expression, device.properties
        found = self._results.get(key)
        if found is None:
            found = self._evaluate(expression, device)
            if len(self._results) >= _LIMIT:
                self._results.clear()
                self._by_driver.clear()
            self._results[key] = found
        if isinstance(found, SelectorError):
            raise found.with_traceback(None)  # it is kept; each time would add to its traceback
        return found

    def _evaluate(self, expression: str, device: PublishedDevice) -> bool | SelectorError:
        from .device_selector import check_values, compile_selector, device_value

        selector = compile_selector(
            expression, list_attributes=self._list_attributes, includes=self._includes
        )
        if isinstance(selector, CompileError):
            raise selector.with_traceback(None)  # as above
        driver, lists, multiple = device.id[0], self._list_attributes, self._multiple_allocations
        try:
            if not selector.reads_driver_alone:
                return selector.matches(device_value(driver, device.device, lists, multiple))
            check_values(device.device, lists)
            key = expression, driver
            if key not in self._by_driver:
                self._by_driver[key] = selector.matches(device_value(driver, device.device, lists, multiple))
            return self._by_driver[key]
        except SelectorError as error:
            return error
