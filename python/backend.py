"""Builds the Python package: a PEP 517 backend that runs CMake and packs a wheel.

    pip install .                        CUDA kernels are inside where nvcc is
    pip install . --config-settings cuda=off            without them
    pip install . --config-settings chips=90            the portable ones for these compute capabilities only (80,90)
    pip wheel . --config-settings library=PATH          packs a libweft.so that is already built

A wheel holds python/weft and libweft.so; it serves any Python of this platform, as nothing is compiled against Python.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE = os.path.join(ROOT, "python", "weft")
METADATA = """Metadata-Version: 2.1
Name: weft
Version: {version}
Summary: Attention and matrix products, tile by tile, in an order of your choosing
License: Apache-2.0
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: false\nTag: {tag}\n"


def _read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def _version():
    return re.search(r'^#define WEFT_VERSION +"(.*)"', _read("include", "weft", "weft.h"), re.MULTILINE).group(1)


def _tag():
    return "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _metadata():
    return METADATA.format(version=_version(), readme=_read("docs", "python.md"))


def _build_library(settings, folder):
    """The path of libweft.so: the one that the settings name, or one built in `folder`."""
    settings = settings or {}
    unknown = sorted(set(settings) - {"cuda", "chips", "library"})
    if unknown:
        raise SystemExit(f"weft: there is no setting {unknown[0]!r}: cuda, chips, library")
    if "library" in settings:
        return os.path.join(ROOT, settings["library"])
    if settings.get("cuda", "on") not in ("on", "off"):
        raise SystemExit(f"weft: cuda is {settings['cuda']!r}, not on or off")
    chips = settings.get("chips", "")
    if not re.fullmatch(r"(\d+(,\d+)*)?", chips):
        raise SystemExit(f"weft: chips is {chips!r}, not compute capabilities such as 90 or 80,90")
    options = [f"-DWEFT_CUDA={settings.get('cuda', 'on').upper()}", f"-DWEFT_CUDA_CHIPS={chips.replace(',', ';')}"]
    if shutil.which("sh"):
        subprocess.run(["sh", os.path.join(ROOT, "scripts", "deps.sh"), "build"], check=True)
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", *options], check=True)
    jobs = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    subprocess.run(["cmake", "--build", folder, "--target", "weft_shared", "-j", jobs], check=True)
    return os.path.join(folder, "libweft.so")


def _pack(directory, files):
    """Writes a wheel of {name in it: bytes} and returns its file name."""
    info = f"weft-{_version()}.dist-info"
    files = {**files, f"{info}/METADATA": _metadata().encode(), f"{info}/WHEEL": WHEEL.format(tag=_tag()).encode(),
             f"{info}/LICENSE": _read("LICENSE").encode()}  # fmt: skip
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"weft-{_version()}-{_tag()}.whl"
    with zipfile.ZipFile(os.path.join(directory, wheel), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def _bytes(path):
    with open(path, "rb") as file:
        return file.read()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        library = _bytes(_build_library(config_settings, folder))
    sources = sorted(name for name in os.listdir(PACKAGE) if name.endswith(".py") or name == "py.typed")
    files = {f"weft/{name}": _bytes(os.path.join(PACKAGE, name)) for name in sources}
    return _pack(wheel_directory, {**files, "weft/libweft.so": library})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """A wheel that points at python/; the library is put beside the package there."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(_build_library(config_settings, folder), os.path.join(PACKAGE, "libweft.so"))
    return _pack(wheel_directory, {"weft.pth": (os.path.dirname(PACKAGE) + "\n").encode()})


def build_sdist(sdist_directory, config_settings=None):
    name = f"weft-{_version()}"
    parts = ["CMakeLists.txt", "LICENSE", "README.md", "bench", "cli", "cmake", "docs", "examples", "include", "machines",
             "pyproject.toml", "python", "scripts", "src", "tests"]  # fmt: skip

    def keep(entry):
        skipped = "__pycache__" in entry.name or entry.name.endswith("libweft.so")
        return None if skipped else entry

    with tarfile.open(os.path.join(sdist_directory, f"{name}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for part in parts:
            archive.add(os.path.join(ROOT, part), f"{name}/{part}", filter=keep)
        with tempfile.NamedTemporaryFile("w", suffix="PKG-INFO", encoding="utf-8") as file:
            file.write(_metadata())
            file.flush()
            archive.add(file.name, f"{name}/PKG-INFO")
    return f"{name}.tar.gz"
