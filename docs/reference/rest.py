# SPDX-License-Identifier: Apache-2.0
"""Writes the reference of the REST paths as Markdown: rest.py OPENAPI.YAML."""

import sys

import yaml


def resolve(contract, entry):
    """What a $ref points to."""
    while "$ref" in entry:
        found = contract
        for name in entry["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        entry = found
    return entry


def one_line(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def values(schema):
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    bounds = [f"{word} {schema[name]}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in schema]
    shown = " ".join([schema.get("type", ""), *bounds])
    return shown + (f", default `{schema['default']}`" if "default" in schema else "")


def write_parameters(contract, operation):
    parameters = [resolve(contract, parameter) for parameter in operation.get("parameters", [])]
    if not parameters:
        return
    print("\n| parameter | values | |\n|---|---|---|")
    for parameter in parameters:
        name = parameter["name"] + (" (header)" if parameter["in"] == "header" else " (path)" if parameter["in"] == "path" else "")
        print(f"| `{name}` | {values(parameter.get('schema', {}))} | {one_line(parameter.get('description', ''))} |")


def write_answers(contract, operation):
    for status, answer in operation.get("responses", {}).items():
        answer = resolve(contract, answer)
        types = ", ".join(f"`{kind}`" for kind in answer.get("content", {}))
        if status != "default":
            print(f"\n{status}: {one_line(answer.get('description', ''))}{f' ({types})' if types else ''}")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        contract = yaml.safe_load(file)
    print(f"# REST paths\n\nOf Sonde {contract['info']['version']}. The gateway serves the same as `/openapi.yaml`.\n")
    print(contract["info"]["description"])
    for path, methods in contract["paths"].items():
        for method, operation in methods.items():
            if method not in ("get", "post", "put", "delete", "head"):
                continue
            print(f"\n## {method.upper()} {path}\n\n{operation.get('description', '').strip()}")
            write_parameters(contract, operation)
            write_answers(contract, operation)


main()
