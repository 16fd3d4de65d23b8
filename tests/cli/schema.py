# SPDX-License-Identifier: Apache-2.0
"""Checks documents against docs/status.schema.json, by the part of JSON Schema that it uses."""

import json
import pathlib
import re

STATUS = json.loads((pathlib.Path(__file__).parents[2] / "docs" / "status.schema.json").read_text())
ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "number": (int, float), "integer": int,
         "null": type(None)}


def is_of(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def faults(value, schema, at="document"):
    """Yields what is wrong with a value; a keyword that is not known here is an error of this file."""
    for keyword, wanted in schema.items():
        match keyword:
            case "type":
                names = [wanted] if isinstance(wanted, str) else wanted
                if not any(is_of(value, name) for name in names):
                    yield f"{at}: {value!r} is not of {wanted}"
            case "const":
                if value != wanted:
                    yield f"{at}: {value!r} is not {wanted!r}"
            case "enum":
                if value not in wanted:
                    yield f"{at}: {value!r} is none of {wanted}"
            case "minimum":
                if is_of(value, "number") and value < wanted:
                    yield f"{at}: {value!r} is below {wanted}"
            case "maxLength":
                if is_of(value, "string") and len(value) > wanted:
                    yield f"{at}: {value!r} is longer than {wanted}"
            case "required":
                if is_of(value, "object"):
                    yield from (f"{at}: {key} is missing" for key in wanted if key not in value)
            case "properties":
                for key in wanted.keys() & value.keys() if is_of(value, "object") else ():
                    yield from faults(value[key], wanted[key], f"{at}.{key}")
            case "additionalProperties":
                for key in value.keys() - schema.get("properties", {}).keys() if is_of(value, "object") else ():
                    yield from faults(value[key], wanted, f"{at}.{key}")
            case "propertyNames":
                for key in value if is_of(value, "object") else ():
                    yield from faults(key, wanted, f"{at}.{key}")
            case "items":
                for index, item in enumerate(value) if is_of(value, "array") else ():
                    yield from faults(item, wanted, f"{at}[{index}]")
            case "$ref":
                target = STATUS
                for step in re.fullmatch("#/(.+)", wanted)[1].split("/"):
                    target = target[step]
                yield from faults(value, target, at)
            case _ if keyword not in ANNOTATIONS:
                raise ValueError(f"{keyword} of {at} is not known")


def check(document):
    found = list(faults(document, STATUS))
    assert not found, "\n".join(found)
