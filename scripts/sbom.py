#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the bill of materials of a source tarball beside it, weft-VERSION.spdx.json (SPDX 2.3), and prints both paths: every file
with its digests, and what the library is built from and loads. The same tarball gives the same bits.

    scripts/sbom.py TARBALL
"""

import datetime
import hashlib
import json
import re
import sys
import tarfile
import uuid
from pathlib import Path

# Name, license, what it is to weft, and why. cmake/dependencies.cmake finds those of the build; others are loaded at run time, by
# who asks for them.
OTHERS = [
    ("jansson", "MIT", "DEPENDENCY_OF", "reads and writes JSON"),
    ("sqlite3", "blessing", "OPTIONAL_DEPENDENCY_OF", "keeps tunings"),
    ("OpenMP", "NOASSERTION", "OPTIONAL_DEPENDENCY_OF", "threads of CPU kernels: the compiler's own, libgomp or libomp"),
    ("MPI", "NOASSERTION", "OPTIONAL_DEPENDENCY_OF", "ranks of libweft_mpi"),
    ("CUDA driver", "NOASSERTION", "OPTIONAL_DEPENDENCY_OF", "GPUs; loaded at run time, and so are NVML, CUPTI and NCCL"),
    ("CMake", "BSD-3-Clause", "BUILD_TOOL_OF", "builds weft"),
]


def identifier(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def digests(data, *names):
    return [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, data).hexdigest()} for name in names]


def describe_file(name, data):
    found = re.search(rb"SPDX-License-Identifier: ([\w.+-]+)\s", data[:512])
    return {
        "SPDXID": identifier(f"File-{hashlib.sha1(name.encode()).hexdigest()[:16]}"),
        "fileName": f"./{name}",
        "checksums": digests(data, "sha1", "sha256"),
        "licenseConcluded": "Apache-2.0",
        "licenseInfoInFiles": [found[1].decode() if found else "NOASSERTION"],
        "copyrightText": "NOASSERTION",
    }


def read(path):
    """{name: contents} of a tarball, without its top folder, and the time that all its files have."""
    with tarfile.open(path) as tarball:
        members = [m for m in tarball.getmembers() if m.isfile()]
        contents = {m.name.partition("/")[2]: tarball.extractfile(m).read() for m in members}
        return contents, max(m.mtime for m in members)


def describe(path):
    contents, seconds = read(path)
    data = path.read_bytes()
    version = re.search(r"^weft-(.+)\.tar\.gz$", path.name)[1]
    files = [describe_file(name, contents[name]) for name in sorted(contents)]
    verification = hashlib.sha1("".join(sorted(f["checksums"][0]["checksumValue"] for f in files)).encode()).hexdigest()
    weft = {
        "SPDXID": "SPDXRef-weft",
        "name": "weft",
        "versionInfo": version,
        "packageFileName": path.name,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": True,
        "packageVerificationCode": {"packageVerificationCodeValue": verification},
        "checksums": digests(data, "sha1", "sha256"),
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "licenseInfoFromFiles": sorted({name for f in files for name in f["licenseInfoInFiles"]}),
        "copyrightText": "2026 The authors of Weft",
        "primaryPackagePurpose": "SOURCE",
    }
    others = [
        {
            "SPDXID": identifier(name),
            "name": name,
            "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION",
            "licenseDeclared": license,
            "copyrightText": "NOASSERTION",
            "comment": why,
        }
        for name, license, _, why in OTHERS
    ]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-weft")]
    relations += [(identifier(name), relation, "SPDXRef-weft") for name, _, relation, _ in OTHERS]
    relations += [("SPDXRef-weft", "CONTAINS", f["SPDXID"]) for f in files]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": path.name,
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, hashlib.sha256(data).hexdigest())}",
        "creationInfo": {
            "created": datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": [f"Tool: weft-sbom-{version}"],
        },
        "packages": [weft, *others],
        "files": files,
        "relationships": [{"spdxElementId": a, "relationshipType": r, "relatedSpdxElement": b} for a, r, b in relations],
    }


def main(name):
    path = Path(name)
    out = path.with_name(path.name.replace(".tar.gz", ".spdx.json"))
    out.write_text(json.dumps(describe(path), indent=1) + "\n")
    print(f"{path}\n{out}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
