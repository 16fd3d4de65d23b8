# SPDX-License-Identifier: Apache-2.0
"""What is measured for the pages of docs/: a module per page, whose functions make its tables and figures."""

import importlib
import pkgutil

for module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{module.name}")
