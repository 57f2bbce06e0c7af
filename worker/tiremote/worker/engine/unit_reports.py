"""What the front is told of the units that a request loaded, beside the receipt."""

from __future__ import annotations

from collections.abc import Mapping

from tiremote.protocol.messages import RequestId
from tiremote.protocol.receipts import Receipt, UnitHolding
from tiremote.worker.engine.loader import KernelLoader
from tiremote.worker.engine.unit import LoadedUnit
from tiremote.worker.engine.whereabouts import Whereabouts
from tiremote.worker.link import UnitArrays


class UnitReports:
    """Collects, from one `begin` to the next, ``units`` that were loaded or rebuilt, and ``arrays`` found in units."""

    def __init__(self, loader: KernelLoader, whereabouts: Whereabouts) -> None:
        self._loader = loader
        self._whereabouts = whereabouts
        #: What was told of each unit last.
        self._told: dict[str, UnitHolding] = {}
        self._arrays_told: dict[str, UnitArrays] = {}
        self.begin()

    def begin(self) -> None:
        """Nothing is to be told yet."""
        self.units: list[UnitHolding] = []
        self.arrays: list[UnitArrays] = []

    def loaded(self, sources: Mapping[str, str], request: RequestId | None, *receipts: Receipt) -> None:
        """These texts were loaded by the request, and others were rebuilt with them."""
        for rebuilt in self._loader.rebuilt(*receipts):
            # With who loaded it before: this request only brought another unit that it uses.
            known = self._told.get(rebuilt.unit)
            self._report(rebuilt, len(rebuilt.source.text.encode()), known.loaded_by if known else None)
            self._find_arrays(rebuilt.unit)
        # Also those that are unchanged, and in the order in which they were built: they are the newest now.
        unchanged = {receipt.unit for receipt in receipts if receipt.unchanged}
        for unit in [unit for unit in self._loader if unit in sources]:
            self._report(self._loader.loaded(unit), len(sources[unit].encode()), request)
            if unit not in unchanged:
                self._find_arrays(unit)

    def _report(self, loaded: LoadedUnit, source_bytes: int, loaded_by: RequestId | None) -> None:
        holding = UnitHolding(
            unit=loaded.unit,
            version=loaded.version,
            definitions=loaded.definitions,
            source_bytes=source_bytes,
            loaded_by=loaded_by,
        )
        self._told[loaded.unit] = holding
        self.units.append(holding)

    def find_arrays(self) -> None:
        """Objects may have made fields of their own since the units were loaded."""
        for unit in self._loader:
            self._find_arrays(unit)

    def _find_arrays(self, unit: str) -> None:
        found = UnitArrays(unit=unit, names=self._whereabouts.fields_of(unit))
        if found != self._arrays_told.get(unit):
            self._arrays_told[unit] = found
            self.arrays.append(found)

    def told(self) -> tuple[dict[str, UnitHolding], dict[str, UnitArrays]]:
        """What was told last, for `resume`."""
        return dict(self._told), dict(self._arrays_told)

    def resume(self, told: dict[str, UnitHolding], arrays: dict[str, UnitArrays]) -> None:
        """The front knows this from another engine."""
        self._told, self._arrays_told = told, arrays

    def dropped(self, unit: str) -> None:
        """It is no longer there."""
        self._told.pop(unit, None)
        self._arrays_told.pop(unit, None)
