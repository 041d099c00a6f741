# SPDX-License-Identifier: Apache-2.0
# Writes files as C source, so that the library finds them wherever it is installed.
#
#   cmake -DOUT=machines_embedded.c -DTABLE=weft_embedded_machines "-DFILES=machines/gb10.ini;machines/h100.ini" -P cmake/embed.cmake
#
# Byte arrays, not string literals: C11 compilers need not take literals beyond 4095 bytes.

cmake_minimum_required(VERSION 3.16)

if(NOT OUT OR NOT TABLE OR NOT FILES)
  message(FATAL_ERROR "usage: cmake -DOUT=<file> -DTABLE=<name> -DFILES=<file;file...> -P embed.cmake")
endif()

set(names "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME_WE)
  if(NOT file MATCHES "\\.ini$") # a machine or a profile is called by its name alone, any other file by all of it
    get_filename_component(name "${file}" NAME)
  endif()
  if(NOT name MATCHES "^[a-z0-9_.-]+$")
    message(FATAL_ERROR "${file}: a file's name is made of a-z, 0-9, -, _ and .")
  endif()
  if(name IN_LIST names)
    message(FATAL_ERROR "${file}: a second file named ${name}")
  endif()
  list(APPEND names "${name}")
  set(file_of_${name} "${file}")
endforeach()
list(SORT names)

set(arrays "")
set(rows "")
set(number 0)
foreach(name IN LISTS names)
  file(READ "${file_of_${name}}" hex HEX)
  string(LENGTH "${hex}" digits)
  math(EXPR length "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}00")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n    "
                       bytes "${bytes}")
  string(APPEND arrays "\nstatic const unsigned char file_${number}[] = {\n    ${bytes}\n};\n")
  string(APPEND rows "    {\"${name}\", (const char *)file_${number}, ${length}},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE "${OUT}" "/* Made by cmake/embed.cmake. */
#include \"base/embedded.h\"
${arrays}
const weft_embedded ${TABLE}[] = {
${rows}};

const size_t ${TABLE}_count = ${number};
")
