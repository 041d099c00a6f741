# SPDX-License-Identifier: Apache-2.0
# What makes a fault in the code harder to exploit: checked copies of known size, canaries on the stack and probes of large frames,
# checked jumps, programs that load anywhere, tables that are read-only once they are loaded. WEFT_HARDEN=OFF builds without.
# A sanitizer finds more and goes with none of it; fuzzers without one are to be fast.
include(CheckCCompilerFlag)
include(CheckPIESupported)

set(hardening "")
set(hardening_of_kernels "")
if(WEFT_HARDEN AND NOT WEFT_SANITIZE AND NOT WEFT_SANITIZE_THREADS AND NOT WEFT_FUZZ)
  set(CMAKE_REQUIRED_FLAGS -Werror)
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "WEFT_HAS${flag}" known)
    check_c_compiler_flag(${flag} ${known})
    if(${known})
      list(APPEND hardening ${flag})
    endif()
  endforeach()
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT "${CMAKE_C_FLAGS}" MATCHES "_FORTIFY_SOURCE") # packagers have their own; glibc has it for code that is optimized
    list(APPEND hardening $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
  endif()
  # The innermost loops have arrays of constant sizes, and no input says where in them they write. A checked memcpy of a vector
  # costs the softmax of the generic kernel about 4 %.
  set(hardening_of_kernels -fno-stack-protector -U_FORTIFY_SOURCE)
  add_compile_options("$<$<COMPILE_LANGUAGE:C>:${hardening}>")
  add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
  check_pie_supported(LANGUAGES C) # links programs as CMAKE_POSITION_INDEPENDENT_CODE compiles them
endif()
