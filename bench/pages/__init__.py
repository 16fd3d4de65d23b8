# SPDX-License-Identifier: Apache-2.0
"""What is measured for the pages of docs/: a module per page, whose functions make its tables and figures."""
