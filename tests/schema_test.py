"""The JSON schema accepts the valid schedules and refuses those that are wrong in structure: schema_test.py SOURCE_FOLDER."""

import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: this Python has no jsonschema")
    sys.exit(77)


def main():
    source = pathlib.Path(sys.argv[1])
    schema_path = source / "configs/schedule.schema.json"
    schema = json.loads(schema_path.read_text())
    validator_class = jsonschema.validators.validator_for(schema)
    validator_class.check_schema(schema)
    validator = validator_class(schema)

    valid = [p for p in (source / "configs").rglob("*.json") if p != schema_path]
    valid += (source / "tests/data/schedules/valid").glob("*.json")
    invalid = sorted((source / "tests/data/schedules/invalid").glob("*.json"))
    failures = []
    for path in valid:
        for error in validator.iter_errors(json.loads(path.read_text())):
            failures.append(f"{path}: {error.json_path}: {error.message}")
    for path in invalid:
        if validator.is_valid(json.loads(path.read_text())):
            failures.append(f"{path}: is accepted, and should not be")
    if len(valid) < 3 or len(invalid) < 10:
        failures.append(f"found only {len(valid)} valid and {len(invalid)} invalid schedules")
    print("\n".join(failures) or f"{len(valid)} valid and {len(invalid)} invalid schedules")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
