"""Prints how the JSON on standard input differs from a published schema: `gitlab`, or `kubernetes`, a list of objects."""

import json
import pathlib
import sys

import jsonschema
import referencing
import referencing.jsonschema

PACKAGES = pathlib.Path(sys.path[0])
GITLAB = PACKAGES / "check_jsonschema/builtin_schemas/vendor/gitlab-ci.json"
API = PACKAGES / "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict"
DEFINITIONS = "/api/_definitions.json"


def differences(schema, instance, registry):
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
    for error in validator(schema, registry=registry).iter_errors(instance):
        print(f"{error.json_path}: {error.message[:300]}")


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


instance = json.load(sys.stdin)
if sys.argv[1] == "gitlab":
    differences(load(GITLAB), instance, referencing.Registry())
else:
    definitions = referencing.Resource(load(API / "_definitions.json"), referencing.jsonschema.DRAFT202012)
    registry = referencing.Registry().with_resource(DEFINITIONS, definitions)
    for number, item in enumerate(instance):
        # The schema of an object is named after its kind, and the group and version of its API.
        version = item["apiVersion"].replace("/", "-")
        differences(load(API / f"{item['kind'].lower()}-{version}.json"), item, registry)
