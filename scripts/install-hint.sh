#!/bin/sh
# Says what programs need in order to find a library that was installed under PREFIX.
#   scripts/install-hint.sh PREFIX
case $1 in
/usr | /usr/local)
    echo "Installed. Run ldconfig once as root, so that programs find the shared library."
    ;;
*)
    cat <<HINT
Installed under $1, where the system does not look by itself. Tell
  the shell          export PATH=$1/bin:\$PATH
  pkg-config         export PKG_CONFIG_PATH=$1/lib/pkgconfig
  CMake              -DCMAKE_PREFIX_PATH=$1
  the linker         -Wl,-rpath,$1/lib    (programs then find the library at run time)
  or the loader      export LD_LIBRARY_PATH=$1/lib    (or a line in /etc/ld.so.conf.d, then ldconfig)
  man                export MANPATH=$1/share/man:
HINT
    ;;
esac
