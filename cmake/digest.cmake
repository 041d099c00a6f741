# SPDX-License-Identifier: Apache-2.0
# Writes weft_build(): for each backend the version, and a digest of what its schedules and kernels are made of. Tunings belong to it.
#   cmake -DOUT=... -DVERSION=... -DCPU=... -DCPU_FILES=... -DCUDA=... -DCUDA_FILES=... -P digest.cmake
# CPU and CUDA say how the backend's FILES are compiled. The digest is of their tokens: comments and formatting do not change it.
cmake_minimum_required(VERSION 3.18)

# Sets `out` to the tokens of a C or CUDA file, with a space between them.
function(tokens_of file out)
  file(READ ${file} text)
  string(REGEX REPLACE "\\\\[ \t]*\n" " " text "${text}") # continued lines
  # What means something in CMake's lists: brackets become digraphs, and a semicolon a character that C does not use.
  string(REPLACE "[" "<: " text "${text}")
  string(REPLACE "]" ":> " text "${text}")
  string(REPLACE ";" "`" text "${text}")
  set(comment [[//[^
]*|/[*][^*]*[*]+([^*/][^*]*[*]+)*/]])
  set(literal [["[^"\]*(\\.[^"\]*)*"|'[^'\]*(\\.[^'\]*)*']])
  # A space before the parenthesis makes it another macro, so both are one token.
  set(macro "#[ \t]*define[ \t]+[A-Za-z0-9_]+[(]?")
  set(operator "[+][+]|--|->|<<=?|>>=?|&&|[|][|]|##|::|[-+*/%&|^=!<>]=")
  string(REGEX MATCHALL "${comment}|${literal}|${macro}|[A-Za-z0-9_.]+|${operator}|[^ \t]" tokens "${text}")
  list(FILTER tokens EXCLUDE REGEX "^/[/*]")
  list(JOIN tokens " " text)
  string(REGEX REPLACE "(\n #[^\n]*)" "\\1@ " text "\n ${text}") # where a directive ends is a part of it
  string(REPLACE "\n " "" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

foreach(backend CPU CUDA)
  set(all "${${backend}}")
  list(SORT ${backend}_FILES)
  foreach(file IN LISTS ${backend}_FILES)
    tokens_of(${file} tokens)
    string(SHA256 digest "${tokens}")
    string(APPEND all ${digest})
  endforeach()
  string(SHA256 digest "${all}")
  string(SUBSTRING ${digest} 0 12 ${backend}_DIGEST)
endforeach()
file(WRITE ${OUT} "/* Written by cmake/digest.cmake. */
#include <weft/tune.h>

const char *weft_build(weft_device_kind kind) {
    return kind == WEFT_DEVICE_CUDA ? \"${VERSION}-${CUDA_DIGEST}\" : \"${VERSION}-${CPU_DIGEST}\";
}
")
