"""Kueue's kinds, `kueue.x-k8s.io/v1beta2`, and Sluice's own `Configuration` beside them.

Names, fields and enums are Kueue's. Quantities stay as written (`"500m"`, `9`, `"1Gi"`) and are
parsed where they are used (`sluice.api.quantity`), so that a manifest reads back as it was applied.
"""

from . import _checks, _configuration, _multikueue, _object, _queues, _workload
from ._checks import *
from ._configuration import *
from ._multikueue import *
from ._object import *
from ._queues import *
from ._workload import *

__all__: list[str] = []
__all__ += _object.__all__
__all__ += _queues.__all__
__all__ += _checks.__all__
__all__ += _multikueue.__all__
__all__ += _workload.__all__
__all__ += _configuration.__all__
__all__.sort()

for _kind in [globals()[name] for name in __all__]:
    if isinstance(_kind, type):
        # Where it is to be imported from; in which file it stands is nobody's business.
        _kind.__module__ = __name__
