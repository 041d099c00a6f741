# Writes weft_build(): the version, and a digest of the compiler and of FILES.
#   cmake -DOUT=... -DVERSION=... -DCOMPILER=... -DFILES=... -P digest.cmake
set(all "${COMPILER}")
list(SORT FILES)
foreach(file ${FILES})
  file(SHA256 ${file} digest)
  string(APPEND all ${digest})
endforeach()
string(SHA256 digest "${all}")
string(SUBSTRING ${digest} 0 12 digest)
file(WRITE ${OUT} "/* Written by cmake/digest.cmake. */
#include <weft/tune.h>

const char *weft_build(void) {
    return \"${VERSION}-${digest}\";
}
")
