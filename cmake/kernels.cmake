# SPDX-License-Identifier: Apache-2.0
# The CUDA kernels: every .cu file of src/cuda and every module of a family becomes an image that is carried inside the
# library, all of them listed in ${weft_images}. Without nvcc the list is empty, and the library says so when it is asked for one.
#
# Files named *_sm90a.cu use what only Hopper has; the others are for every chip from 8.0 on. Code for 8.0 serves 8.x, for 10.0
# 10.x and for 12.0 12.x (GB10 is 12.1); later chips compile the PTX when they load it.

# Writes the modules of the family in src/cuda/<folder> to ${PROJECT_BINARY_DIR}/<into> and sets `out` to their files. Each row
# of its variants.def, MACRO(symbol, module, ...) or MACRO_GENERAL(...), is an entry point of <module>.cu; entries.cuh says what
# the macros expand to. Rows whose symbol does not match the regular expression `only` are left out; <into>/cuda/<folder> gets a
# variants.def of the others.
function(weft_modules out folder macro into only)
  set(def src/cuda/${folder}/variants.def)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${def})
  set(into ${PROJECT_BINARY_DIR}/${into})
  file(READ ${PROJECT_SOURCE_DIR}/${def} text)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${def} rows REGEX "^${macro}(_GENERAL)?\\(")
  set(modules "")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^[A-Z_]+\\(([^,]+), *([^, ]+)" matched "${row}")
    set(module ${CMAKE_MATCH_2})
    if(CMAKE_MATCH_1 MATCHES "${only}")
      list(APPEND modules ${module})
      string(APPEND rows_of_${module} "${row}\n")
    else()
      string(REPLACE "${row}\n" "" text "${text}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES modules)
  set(files "")
  foreach(module IN LISTS modules)
    set(file ${into}/${module}.cu)
    file(CONFIGURE OUTPUT ${file} @ONLY
         CONTENT "/* Made by cmake/kernels.cmake from ${def}. */\n#include \"cuda/${folder}/entries.cuh\"\n\n${rows_of_${module}}")
    list(APPEND files ${file})
  endforeach()
  file(CONFIGURE OUTPUT ${into}/cuda/${folder}/variants.def @ONLY CONTENT "${text}")
  set(${out} ${files} PARENT_SCOPE)
endfunction()

weft_modules(weft_decode_modules decode WEFT_DECODE kernels "${WEFT_CUDA_ONLY}")
weft_modules(weft_study_modules study WEFT_STUDY kernels "${WEFT_CUDA_ONLY}")
weft_modules(weft_study_backward_modules study/backward WEFT_STUDY_BACKWARD kernels "${WEFT_CUDA_ONLY}")
weft_modules(weft_attention_modules sm90/attention WEFT_HOPPER_ATTENTION kernels "${WEFT_CUDA_ONLY}")
weft_modules(weft_hopper_backward_modules sm90/backward WEFT_HOPPER_BACKWARD kernels "${WEFT_CUDA_ONLY}")
weft_modules(weft_mla_modules sm90/mla WEFT_MLA kernels "${WEFT_CUDA_ONLY}")
weft_modules(weft_gemm_modules sm90/gemm WEFT_GEMM kernels "${WEFT_CUDA_ONLY}")
weft_modules(weft_portable_gemm_modules gemm WEFT_PORTABLE_GEMM kernels "${WEFT_CUDA_ONLY}")
weft_modules(weft_hopper_grouped_modules sm90/gemm/grouped WEFT_HOPPER_GROUPED kernels "${WEFT_CUDA_ONLY}")
weft_modules(weft_portable_grouped_modules gemm/grouped WEFT_PORTABLE_GROUPED kernels "${WEFT_CUDA_ONLY}")

set(weft_images ${PROJECT_BINARY_DIR}/cuda_images.c)
set(image_rows "")
set(image_bytes "")
set(image_files "")
set(toolkit 0)
set(portable_chips "")
set(nvcc_flags -std=c++17 -O3)
if(WEFT_CUDA_RACECHECK)
  list(APPEND nvcc_flags -DWEFT_RACECHECK)
endif()
if(WEFT_HAS_CUDA)
  file(GLOB_RECURSE kernel_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cu)
  list(APPEND kernel_files ${weft_decode_modules} ${weft_study_modules} ${weft_study_backward_modules} ${weft_attention_modules} ${weft_hopper_backward_modules}
       ${weft_mla_modules} ${weft_gemm_modules} ${weft_portable_gemm_modules} ${weft_hopper_grouped_modules} ${weft_portable_grouped_modules})
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" matched "${CMAKE_CUDA_COMPILER_VERSION}")
  math(EXPR toolkit "1000 * ${CMAKE_MATCH_1} + 10 * ${CMAKE_MATCH_2}")
  set(portable_chips 80 90)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    list(APPEND portable_chips 100 120)
  endif()
  if(WEFT_CUDA_CHIPS) # compiles faster, for those who know where it will run
    set(portable_chips ${WEFT_CUDA_CHIPS})
  endif()
  list(LENGTH kernel_files kernel_count)
  foreach(source ${kernel_files})
    get_filename_component(name ${source} NAME_WE)
    set(image ${PROJECT_BINARY_DIR}/kernels/${name}.fatbin)
    set(chips ${portable_chips})
    list(GET portable_chips 0 ptx)
    if(name MATCHES "_sm90a$")
      set(chips 90a)
      set(ptx "")
    endif()
    # nvcc tells which headers a file includes; a CMake that cannot read that compiles again after a change of any.
    if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.20)
      set(headers DEPFILE ${image}.d)
    else()
      file(GLOB_RECURSE headers ${PROJECT_SOURCE_DIR}/src/cuda/*.cuh ${PROJECT_SOURCE_DIR}/src/cuda/*.h
           ${PROJECT_SOURCE_DIR}/src/order/*.h
           ${PROJECT_SOURCE_DIR}/src/cuda/*.def ${PROJECT_SOURCE_DIR}/include/weft/*)
      list(PREPEND headers DEPENDS)
    endif()
    add_custom_command(
      OUTPUT ${image}
      COMMAND ${CMAKE_COMMAND} -DNVCC=${CMAKE_CUDA_COMPILER} -DSOURCE=${source} -DOUT=${image} -DDEPFILE=${image}.d "-DFLAGS=${nvcc_flags}" -DSKBUILD=${SKBUILD}
              "-DINCLUDES=${PROJECT_SOURCE_DIR}/include;${PROJECT_SOURCE_DIR}/src" "-DCHIPS=${chips}" "-DPTX=${ptx}" -DCOUNT=${kernel_count}
              -P ${PROJECT_SOURCE_DIR}/cmake/kernel.cmake
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/cmake/kernel.cmake
      ${headers}
      COMMENT "Compiling CUDA kernels ${name}"
      VERBATIM)
    list(APPEND image_files ${image})
    string(APPEND image_rows "    {\"${name}\", weft_image_${name}},\n")
    string(APPEND image_bytes "EMBED(${name}, \"${image}\")\n")
  endforeach()
endif()

# The assembler takes the bytes as they are: a C array of this size would take a compiler minutes.
file(CONFIGURE OUTPUT ${weft_images} @ONLY CONTENT [[
/* Made by cmake/kernels.cmake. */
#include "cuda/driver/module.h"

#define EMBED(name, file)                                                                                                  \
    __asm__(".pushsection .rodata\n.balign 64\n.hidden weft_image_" #name "\n.global weft_image_" #name                    \
            "\nweft_image_" #name ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n");                                      \
    extern const unsigned char weft_image_##name[];
@image_bytes@
const weft_cuda_image weft_cuda_images[] = {
@image_rows@    {0, 0},
};

const int weft_cuda_toolkit = @toolkit@;
]])
set_source_files_properties(${weft_images} PROPERTIES OBJECT_DEPENDS "${image_files}")
