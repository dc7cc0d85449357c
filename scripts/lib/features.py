"""Compares the feature sets on standard input ("crate set set ...") with the manifests of the published crates."""

import json
import subprocess
import sys

listed = {}
for line in sys.stdin:
    crate, *sets = line.split()
    listed[crate] = {name for names in sets for name in names.split(",")} - {"-"}

metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]))
declared = {
    # A leading "__" marks a private feature; `full` is every other one.
    package["name"]: {name for name in package["features"] if name not in ("default", "full") and name[:2] != "__"}
    for package in metadata["packages"]
    if package["publish"] != []
}

wrong = [
    f"{crate}: {feature} is in {'the manifest' if feature in features else 'scripts/features'} only"
    for crate, features in declared.items()
    for feature in sorted(features ^ listed.get(crate, set()))
]
wrong += [f"{crate}: not in scripts/features" for crate in declared.keys() - listed.keys()]
wrong += [f"{crate}: in scripts/features, but no published crate" for crate in listed.keys() - declared.keys()]
print("\n".join(wrong) or "every feature is listed")
sys.exit(bool(wrong))
