# SPDX-License-Identifier: Apache-2.0
# weft_tell(TEXT): a line for whoever waits. pip shows nothing of a build unless it is asked to (-v), so its users are told on their terminal.
function(weft_tell text)
  message("-- weft: ${text}")
  if(SKBUILD)
    execute_process(COMMAND sh -c "printf '\\n  weft: %s\\n' \"$1\" >/dev/tty" sh "${text}" ERROR_QUIET)
  endif()
endfunction()
