# SPDX-License-Identifier: Apache-2.0
"""How the pages of docs/ write numbers."""


def digits(value, count):
    """So many significant digits, without an exponent: 0.010, 1.5, 37, 4200."""
    if value == 0:
        return "0"
    text = f"{value:#.{count}g}"
    return (f"{float(text):.0f}" if "e" in text else text).rstrip(".")


def short(value, count=2):
    """The same for what spans many magnitudes: 63, 4.2e3, 1.8e-3."""
    if value == 0 or 0.01 <= abs(value) < 1000:
        return digits(value, count)
    mantissa, exponent = f"{value:.{count - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def thousands(value):
    """A whole number with commas: 1,565."""
    return f"{value:,.0f}"


def percent(value, places=1):
    return f"{100 * value:.{places}f}%"


def seconds(value):
    """Three digits and the unit: 2.29 s, 12.4 ms."""
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if value >= unit:
            return f"{digits(value / unit, 3)} {name}"
    return "0 s"


def mean_and_deviation(time):
    """A time of a simulation's report."""
    return f"{time['mean']:.2f} ± {time['sd']:.2f}"
