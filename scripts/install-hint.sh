#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Says what programs need in order to find a library that was installed under PREFIX.
#   scripts/install-hint.sh PREFIX
prefix=$(realpath -m "$1")
case $prefix in
/usr | /usr/local)
    echo "Installed. Run ldconfig once as root, so that programs find the shared library."
    ;;
*)
    cat <<HINT
Installed under $prefix, where the system does not look by itself. Tell
  the shell          export PATH=$prefix/bin:\$PATH
  pkg-config         export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
  CMake              -DCMAKE_PREFIX_PATH=$prefix
  the linker         -Wl,-rpath,$prefix/lib    (programs then find the library at run time)
  or the loader      export LD_LIBRARY_PATH=$prefix/lib    (or a line in /etc/ld.so.conf.d, then ldconfig)
  man                export MANPATH=$prefix/share/man:
HINT
    ;;
esac
