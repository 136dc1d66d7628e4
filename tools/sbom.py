"""The bill of materials in the wheel: CycloneDX, where PEP 770 wants it.

A build hook of hatchling. The versions are the tested ones, of `requirements-dev.lock`. What those
packages need in turn is not known here, and the bill says that it is incomplete.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement


class BillOfMaterials(BuildHookInterface[Any]):
    """Writes the bill beside the tree, for as long as the wheel is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write it, and tell the builder where it is."""
        if version != "standard":
            return  # an editable install is a path, and nobody's delivery
        self.folder = Path(tempfile.mkdtemp())
        path = self.folder / f"{self.metadata.name}.cdx.json"
        path.write_text(json.dumps(self.bill(), indent=1) + "\n")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what the wheel has a copy of."""
        if version == "standard":
            shutil.rmtree(self.folder)

    def bill(self) -> dict[str, Any]:
        """What the wheel is, and what it may need: for everybody, or for an extra."""
        core = self.metadata.core
        extras = [line for lines in core.optional_dependencies.values() for line in lines]
        needed = names(core.dependencies)
        lock = (Path(self.root) / "requirements-dev.lock").read_text()
        locked = dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", lock, re.MULTILINE))
        whole = component(core.name, self.metadata.version)
        whole |= {
            "licenses": [{"expression": core.license_expression}],
            "description": core.description,
        }
        parts = [component(name, locked[name]) for name in sorted(needed | names(extras))]
        for part in parts:
            part["scope"] = "required" if part["name"] in needed else "optional"
        builder = component("hatchling", installed("hatchling"))
        return {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "lifecycles": [{"phase": "build"}],
                "tools": {"components": [builder]},
                "component": whole,
            },
            "components": parts,
            "dependencies": [
                {"ref": whole["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}
            ],
            "compositions": [
                {"aggregate": "incomplete", "dependencies": [part["bom-ref"] for part in parts]}
            ],
        }


def component(name: str, version: str) -> dict[str, Any]:
    """One package of the index."""
    purl = f"pkg:pypi/{name}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def names(requirements: list[str]) -> set[str]:
    """The packages that these lines ask for."""
    return {Requirement(line).name for line in requirements}
