# SPDX-License-Identifier: Apache-2.0
"""src/xla/ffi.h lays structures out as the header does that jaxlib carries."""

import os
import shutil
import subprocess

import pytest

jax = pytest.importorskip("jax", reason="JAX is not importable here: its tests are skipped")

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Ours, XLA's, and the fields that are of another name: {ours: XLA's}; an "extensions" is always an "extension_start".
STRUCTURES = [
    ("xla_version", "Api_Version", ["struct_size", "extensions", "major_version", "minor_version"], {}),
    ("xla_metadata", "Metadata", ["struct_size", "version", "traits"], {"version": "api_version"}),
    ("xla_metadata_extension", "Metadata_Extension", ["base", "metadata"], {"base": "extension_base"}),
    ("xla_buffer", "Buffer", ["struct_size", "extensions", "dtype", "data", "rank", "dims"], {}),
    ("xla_array", "Array", ["dtype", "size", "data"], {}),
    ("xla_span", "ByteSpan", ["text", "length"], {"text": "ptr", "length": "len"}),
    ("xla_values", "Args", ["struct_size", "extensions", "size", "types", "values"], {"values": "args"}),
    ("xla_values", "Rets", ["struct_size", "extensions", "size", "types", "values"], {"values": "rets"}),
    ("xla_attributes", "Attrs", ["struct_size", "size", "types", "names", "values"], {"values": "attrs"}),
    ("xla_error_create", "Error_Create_Args", ["struct_size", "message", "code"], {"code": "errc"}),
    ("xla_error_destroy", "Error_Destroy_Args", ["struct_size", "error"], {}),
    ("xla_stream_get", "Stream_Get_Args", ["struct_size", "context", "stream"], {"context": "ctx"}),
    ("xla_ordinal_get", "DeviceOrdinal_Get_Args", ["context", "ordinal"], {"context": "ctx", "ordinal": "device_ordinal"}),
    ("xla_api", "Api", ["struct_size", "version", "error_create", "error_destroy", "stream_get", "ordinal_get"],
     {"version": "api_version", "error_create": "XLA_FFI_Error_Create", "error_destroy": "XLA_FFI_Error_Destroy",
      "stream_get": "XLA_FFI_Stream_Get", "ordinal_get": "XLA_FFI_DeviceOrdinal_Get"}),
    ("xla_call_frame", "CallFrame", ["struct_size", "extensions", "api", "context", "stage", "arguments", "results", "attributes"],
     {"context": "ctx", "arguments": "args", "results": "rets", "attributes": "attrs"}),
]  # fmt: skip
CONSTANTS = {"XLA_PRED": "DataType_PRED", "XLA_S32": "DataType_S32", "XLA_S64": "DataType_S64", "XLA_F16": "DataType_F16", "XLA_F32": "DataType_F32", "XLA_BF16": "DataType_BF16",
             "XLA_METADATA": "Extension_Metadata", "XLA_BUFFER": "ArgType_BUFFER", "XLA_ARRAY": "AttrType_ARRAY",
             "XLA_EXECUTE": "ExecutionStage_EXECUTE", "XLA_INVALID_ARGUMENT": "Error_Code_INVALID_ARGUMENT",
             "XLA_NOT_FOUND": "Error_Code_NOT_FOUND", "XLA_RESOURCE_EXHAUSTED": "Error_Code_RESOURCE_EXHAUSTED",
             "XLA_UNIMPLEMENTED": "Error_Code_UNIMPLEMENTED", "XLA_INTERNAL": "Error_Code_INTERNAL"}  # fmt: skip


@pytest.mark.skipif(not shutil.which("cc") or not hasattr(jax, "ffi"), reason="no C compiler, or no jax.ffi")
def test_offsets_sizes_and_numbers(tmp_path):
    checks = []
    for ours, theirs, fields, names in STRUCTURES:
        for field in fields:
            other = f"XLA_FFI_{theirs}, {names.get(field, 'extension_start' if field == 'extensions' else field)}"
            checks.append(f'_Static_assert(offsetof({ours}, {field}) == offsetof({other}), "{ours}.{field}");')
    for ours, theirs in CONSTANTS.items():
        checks.append(f'_Static_assert((int){ours} == (int)XLA_FFI_{theirs}, "{ours}");')
    checks.append('_Static_assert(XLA_FFI_API_MAJOR == 0, "the major version of the interface");')
    source = tmp_path / "layout.c"
    headers = '#include "xla/ffi/api/c_api.h"\n#include "src/xla/ffi.h"\n'
    source.write_text(headers + "\n".join(checks) + "\n")
    include = [f"-I{jax.ffi.include_dir()}", f"-I{ROOT}"]
    subprocess.run(["cc", "-std=c11", "-fsyntax-only", *include, str(source)], check=True)
